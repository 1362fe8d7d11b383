# SPDX-License-Identifier: Apache-2.0
"""The parts of the node runtime that are pure, or nearly: ids, words, undos, logs, state."""

from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel.layout import Field, StructLayout
from policyc.runtime.kernel.libbpf import summarise
from policyc.runtime.load.resolving import (
    Roster,
    assign_ids,
    identity,
)
from policyc.runtime.snat.reserved_ports import spans
from policyc.runtime.state import Attachment, Generation, LoadedEndpoint, LoadedMasquerade, StateDir
from policyc.runtime.switch import Word
from policyc.runtime.undo import Undo


def record(name: str, address: str) -> EndpointRecord:
    return EndpointRecord(
        namespace="shop", name=name, labels={}, namespace_labels={}, ports=(),
        addresses={4: ip_address(address)}, service_account="default", node="n",
        host_network=False, interface=None, mac=None,
    )  # fmt: skip


def loaded(ident: int, name: str, address: str) -> LoadedEndpoint:
    return LoadedEndpoint(ident, "shop", name, (address,), "", 0, "", {"ingress_row": 1})


WEB, DB, NEW = record("web", "10.0.0.1"), record("db", "10.0.0.2"), record("new", "10.0.0.3")


def test_a_load_keeps_ids_and_does_not_reuse_those_of_removed_pods() -> None:
    before = (loaded(2, "web", "10.0.0.1"), loaded(1, "gone", "10.0.0.9"))
    ids = assign_ids(Roster((NEW, WEB, DB), {}), before, set(), capacity=8)
    assert ids == {identity(WEB): 2, identity(NEW): 3, identity(DB): 4}


def test_a_pod_that_moved_to_another_address_is_another_endpoint() -> None:
    ids = assign_ids(Roster((WEB,), {}), (loaded(1, "web", "10.0.0.7"),), set(), capacity=8)
    assert ids == {identity(WEB): 2}


def test_ids_in_kernel_maps_are_not_assigned_again() -> None:
    assert assign_ids(Roster((WEB,), {}), (), {1, 2}, capacity=8) == {identity(WEB): 3}


def test_more_endpoints_than_there_is_room_for() -> None:
    with pytest.raises(InputError, match="endpoint limit of 2 is exceeded at shop/new"):
        assign_ids(Roster((WEB, DB, NEW), {}), (), set(), capacity=3)


def test_a_pod_that_moved_keeps_its_id_when_no_other_is_free() -> None:
    before = (loaded(1, "web", "10.0.0.7"), loaded(2, "db", "10.0.0.8"))
    ids = assign_ids(Roster((WEB, DB), {}), before, {1, 2}, capacity=4)
    assert ids == {identity(WEB): 3, identity(DB): 2}
    ids = assign_ids(Roster((WEB, DB), {}), before, {1, 2}, capacity=3)
    assert ids == {identity(WEB): 1, identity(DB): 2}
    with pytest.raises(InputError, match="endpoint limit of 1"):
        assign_ids(Roster((DB,), {}), before, {1, 2}, capacity=2)


def test_words_alternate_slots_and_never_return_to_epoch_0() -> None:
    assert Word(0, 0).next == Word(0, 1)
    assert Word(0, 1).next == Word(1, 2)
    assert Word(1, 0xFFFFFFFF).next == Word(0, 1)


def test_a_word_keeps_its_services_from_load_to_load() -> None:
    first = Word(0, 1).with_services
    assert first.services and first.buffer == 1 and first.with_services.buffer == 0
    assert first.next == Word(1, 2, first.services)
    assert first.with_services.services & first.services, "what is on stays on"
    leaving = Word(0, 1, masquerades=True)
    assert leaving.with_services.masquerades and leaving.next == Word(1, 2, masquerades=True)


def test_reserved_ports_are_remembered_as_ranges(tmp_path: Path) -> None:
    assert spans([3, 1, 2, 9, 65535]) == [(1, 3), (9, 9), (65535, 65535)]
    state = StateDir(Path("/x"), tmp_path)
    assert state.reserved() == []
    state.set_reserved([(1, 3), (9, 9)])
    state.keep_only(1)
    assert state.reserved() == [(1, 3), (9, 9)]
    state.set_reserved([])
    assert list(state.path.iterdir()) == []


def test_undo_runs_backwards_and_keeps_the_first_error() -> None:
    done: list[str] = []

    def fail() -> None:
        raise OSError("cannot")

    with pytest.raises(ValueError, match="first") as caught, Undo() as undo:
        undo.by(done.append, "one")
        undo.by(fail)
        undo.by(done.append, "two")
        raise ValueError("first")
    assert done == ["two", "one"]
    assert caught.value.__notes__ == ["and it could not be undone: cannot"]


def test_a_forgotten_undo_does_nothing() -> None:
    done: list[str] = []
    with pytest.raises(ValueError), Undo() as undo:
        undo.by(done.append, "one")
        undo.forget()
        raise ValueError
    with Undo() as undo:
        undo.by(done.append, "two")
    assert done == []


LOG = """libbpf: prog 'pc_policy_run': BPF program load failed: Permission denied
libbpf: prog 'pc_policy_run': -- BEGIN PROG LOAD LOG --
0: R1=ctx() R10=fp0
; flow = pc_flow_scratch();
61: (85) call bpf_map_lookup_elem#1   ; R0=map_value()
62: (79) r1 = *(u64 *)(r0 +128000)
invalid access to map value, value_size=8 off=128000 size=8
R0 min value is outside of the allowed memory range
processed 63 insns (limit 1000000) max_states_per_insn 0 total_states 5 peak_states 5 mark_read 0
-- END PROG LOAD LOG --
libbpf: failed to load object 'policy.bpf.o'
"""


def test_a_verifiers_log_in_a_line() -> None:
    assert summarise(LOG) == (
        "invalid access to map value, value_size=8 off=128000 size=8; "
        "R0 min value is outside of the allowed memory range "
        "(at 62: (79) r1 = *(u64 *)(r0 +128000))"
    )
    assert (
        summarise("libbpf: map 'x': failed to create\nlibbpf: more\n")
        == "map 'x': failed to create"
    )
    assert summarise("") == ""


def test_structs_are_packed_by_their_layout() -> None:
    fields = {"id": Field(0, 4, 1, "little"), "port": Field(4, 2, 1, "big")}
    layout = StructLayout("pc_x", 12, fields | {"at": Field(6, 6, 3, "little")})
    raw = b"\x01\0\0\0\0\x50\x02\0\x03\0\0\0"
    assert layout.pack(id=1, port=80, at=[2, 3]) == raw
    assert layout.pack(port=b"ab", at=bytes(6)) == b"\0\0\0\0ab" + bytes(6)
    assert layout.packer("at", "port", "id")(raw[6:], 80, 1) == raw
    assert (layout.number(raw, "id"), layout.number(raw, "port")) == (1, 80)
    assert layout.numbers(raw, "at") == (2, 3, 0)
    assert layout.cutter("at", "port")(raw) == raw[4:]
    assert layout.cutter("at", "id")(raw) == raw[:4] + raw[6:]
    assert layout.unpack(raw) == {"id": raw[:4], "port": raw[4:6], "at": raw[6:]}


def test_a_value_of_the_wrong_size_is_refused() -> None:
    layout = StructLayout("pc_x", 4, {"mac": Field(0, 2, 1, "little")})
    with pytest.raises(ValueError, match=r"pc_x\.mac: the field has 2 bytes, not 3"):
        layout.pack(mac=b"abc")
    with pytest.raises(OverflowError):
        layout.pack(mac=65536)


def test_hooks_of_another_release_are_named() -> None:
    """Their struct lacks a field that this release writes."""
    layout = StructLayout("pc_x", 4, {})
    for use in (lambda: layout.pack(node=1), lambda: layout.number(bytes(4), "node")):
        with pytest.raises(HostError, match="`struct pc_x` of the hooks has no field `node`"):
            use()


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = StateDir(Path("/sys/fs/bpf/policyc"), tmp_path)
    generation = Generation(
        3, 1, "/b", "d", "h", "n", ("192.0.2.7",), "zone-a", {"n": 0, "m": 7},
        (loaded(1, "web", "10.0.0.1"),), (Attachment("v", 4, "tcx"),),
        (Attachment("w", 5, "clsact", "uplink"),), ({"id": 0},), {"PC_PASS": 0}, "stack", "dsr",
        "/sys/fs/cgroup",
        LoadedMasquerade(50000, 50099, ("10.0.0.0/8",), {"up0": ("192.0.2.7",)}),
    )  # fmt: skip
    assert generation.masquerade_ports == range(50000, 50100)
    plain = replace(generation, epoch=2, masquerade=None)
    for each in (plain, generation):
        state.write(each)
        assert state.read(each.epoch) == each
    state.remove(2)
    assert state.read(2) is None
    assert StateDir(Path("/sys/fs/bpf/other"), tmp_path).read(3) is None
    state.keep_only(4)
    assert state.read(3) is None


def test_state_of_another_release_is_refused(tmp_path: Path) -> None:
    state = StateDir(Path("/x"), tmp_path)
    state.path.mkdir()
    (state.path / "generation-1.json").write_text('{"schema": "policyc.dev/node-state/v0"}')
    with pytest.raises(HostError, match="was written by another release"):
        state.read(1)
    warnings: list[str] = []
    assert state.remembered(1, warnings.append) is None
    assert "using the state in the kernel" in warnings[0]


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    root = tmp_path / "run"
    state = StateDir(Path("/x"), root)
    with state.lock():
        assert state.path.is_dir()
        with pytest.raises(HostError, match="another `policyc node`"), state.lock():
            pass
    assert not root.exists()
