# SPDX-License-Identifier: Apache-2.0
"""Load, replace, fail, unload: at any time one generation is in force, or none."""

import shutil
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import tcx
from policyc.runtime.attach.attach import BY_ROLE
from policyc.runtime.endpoints import endpoint_maps
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.endpoints.placement import (
    MapWrite,
    Placement,
)
from policyc.runtime.errors import HostError, InputError, NodeError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.load import node as runtime
from policyc.runtime.load.request import LoadRequest
from policyc.runtime.state import StateDir
from tests.kernel.support.killed import die, killed
from tests.kernel.support.node_under_test import (
    HOSTS,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.objects import (
    OTHER_FIELDS,
    RENAMED_MAPS,
    fewer_entries,
    refused_hooks,
    renamed,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    NamePlacer,
    tcp_port,
)
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]


def _pins(node: NodeUnderTest) -> list[str]:
    return sorted(str(path.relative_to(node.bpffs)) for path in node.bpffs.rglob("*"))


def _word(node: NodeUnderTest) -> switch.Word:
    return switch.read(node.pins.map("pc_state"))


def _endpoint_keys(node: NodeUnderTest, name: str) -> set[bytes]:
    held = endpoint_maps.present(node.pins, node.layout("pc_endpoint"))
    return {key for table, key in held if table == name}


def test_status_shows_the_loaded_bundle(node: NodeUnderTest) -> None:
    node.node_addresses = ()
    assert node.status() is None
    loaded = node.load(node.policy().allow("a", "b", ANY))
    assert (loaded.generation.epoch, loaded.generation.slot, loaded.replaced_epoch) == (1, 0, 0)
    assert node.sent_by("a", frame(A, B, udp(1, 2)))
    found = node.status()
    assert found is not None
    places = [
        (e.id, e.name, e.interface, e.place["row"], e.place["column4"]) for e in found.endpoints
    ]
    assert places == [(1, "a", "pca", 1, 1), (2, "b", "pcb", 2, 2), (3, "c", "", 3, 3)]
    sizes = {each.name: (each.used, each.entries) for each in found.maps}
    assert sizes["pc_ep4"] == (3, 65536)
    assert sizes["pc_if"] == (2, 4096)
    assert sizes["pc_ct4"] == (0, 131072)
    assert sizes["pc_ct4_new"] == (1, 32768)
    assert sizes["pc_cells_in"] == (None, 256)
    assert [(each.rule, each.packets) for each in found.rules] == [(2, 2)]
    assert found.to_json()["schema"] == "policyc.dev/node-status/v1"


@pytest.mark.fresh
def test_a_second_load_replaces_the_first(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    pins = _pins(node)
    loaded = node.load(node.policy().allow("a", "b", tcp_port(81)))
    assert not loaded.hooks_replaced
    assert _word(node) == switch.Word(slot=1, epoch=2)
    assert _pins(node) == [name.replace("generations/1", "generations/2") for name in pins]
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
    node.load(node.policy().allow("a", "b", tcp_port(82)))
    assert _word(node) == switch.Word(slot=0, epoch=3)
    assert node.sent_by("a", frame(A, B, tcp(1000, 82, SYN)))


def test_a_load_keeps_the_ids_of_remaining_endpoints(node: NodeUnderTest) -> None:
    node.node_addresses = ()
    entries = {n: endpoint(n, HOSTS[n], d) for n, d in (("a", "pca"), ("b", "pcb"), ("c", None))}
    policy = node.policy().allow("b", "c", ANY)
    node.load(policy, entries=[entries["a"], entries["c"]])
    assert {path.name for path in node.pins.links.iterdir()} == {
        f"{node.ifindex['pca']}-pc_from_pod", f"{node.ifindex['pca']}-pc_to_pod",
    }  # fmt: skip
    loaded = node.load(policy, entries=[entries["c"], entries["b"]])
    assert {each.name: each.id for each in loaded.generation.endpoints} == {"c": 2, "b": 3}
    assert _endpoint_keys(node, "pc_ep4") == {_key(B.ip4), _key(C.ip4)}
    assert _endpoint_keys(node, "pc_if") == {struct.pack("=I", node.ifindex["pcb"])}
    assert node.sent_by("b", frame(B, C, udp(1, 2)))
    loaded = node.load(policy, entries=[entries["a"], entries["c"]])
    assert {each.name: each.id for each in loaded.generation.endpoints} == {"a": 1, "c": 2}


def _key(address: str) -> bytes:
    import ipaddress

    return ipaddress.ip_address(address).packed


def test_pods_in_the_hosts_network_are_no_endpoints(node: NodeUnderTest) -> None:
    node.node_addresses = ()
    entries = [endpoint("a", A, "pca"), endpoint("c", C, None) | {"hostNetwork": True}]
    loaded = node.load(node.policy(), entries=entries)
    assert [each.name for each in loaded.generation.endpoints] == ["a"]


def test_a_node_is_an_endpoint_under_each_address_and_keeps_its_ids(node: NodeUnderTest) -> None:
    first = node.load(node.policy()).generation.endpoints
    again = node.load(node.policy()).generation.endpoints
    assert [(e.title, e.addresses, e.id) for e in again if e.is_node] == [
        ("node node-1", ("10.0.0.1",), 4), ("node node-1", ("fd00::1",), 5),
    ]  # fmt: skip
    assert first == again
    assert _endpoint_keys(node, "pc_ep4") >= {_key("10.0.0.1")}
    node.node_addresses = ()
    node.load(node.policy())
    assert _endpoint_keys(node, "pc_ep4") == {_key(HOSTS[n].ip4) for n in ("a", "b", "c")}


def test_without_a_policy_program_nothing_passes(node: NodeUnderTest) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    with node.shared_map("pc_policy") as fd:
        bpf_syscall.map_delete(fd, bytes(4))
    assert not node.sent_by("a", frame(A, B, udp(1, 2)))
    assert not node.sent_to("b", frame(HOSTS["world"], B, udp(1, 2)))
    assert node.drops() == {"no policy": 2}


class _FailingPlacer(NamePlacer):
    def place(self, endpoint: EndpointRecord) -> Placement:
        raise InputError("the classifier is at a loss")


class _WritesNowhere(NamePlacer):
    def drain_writes(self) -> list[MapWrite]:
        return [MapWrite("pc_nowhere", 0, (1,))]


def _fail_by_verifier(node: NodeUnderTest, variant: Callable[..., Path]) -> None:
    broken = variant("broken", {"policy_run.h": (
        "count->packets += 1;", "*(volatile __u64 *)(count + PC_RULES * 1000) += 1;")})  # fmt: skip
    node.load(node.policy(), objects=broken)


def _fail_by_hooks(node: NodeUnderTest, _variant: object) -> None:
    node.load(node.policy(), objects=refused_hooks(node.objects, node.folder / "broken"))


def _fail_by_other_maps(node: NodeUnderTest, _variant: object) -> None:
    node.load(node.policy(), objects=fewer_entries(node.objects, node.folder / "fewer", 131072, 64))


def _fail_by_renamed_maps(node: NodeUnderTest, _variant: object) -> None:
    """The hooks in use have maps that the new ones know by other names."""
    _load_renamed(node, RENAMED_MAPS)


def _fail_by_other_fields(node: NodeUnderTest, _variant: object) -> None:
    """The hooks in use have values of the same size, in which the new ones see something else."""
    _load_renamed(node, OTHER_FIELDS)


def _load_renamed(node: NodeUnderTest, names: dict[str, str]) -> None:
    node.load(node.policy(), objects=renamed(node.objects, node.folder / "renamed", names))


def _fail_by_placer(node: NodeUnderTest, _variant: object) -> None:
    _load_with(node, _FailingPlacer)


def _fail_by_writes(node: NodeUnderTest, _variant: object) -> None:
    _load_with(node, _WritesNowhere)


def _fail_by_device(node: NodeUnderTest, _variant: object) -> None:
    node.load(node.policy(), entries=[endpoint("a", A, "pcgone")])


def _fail_by_attach(node: NodeUnderTest, _variant: object) -> None:
    """The last hook of the second device is refused, when everything else is done."""

    def refuse(prog: int, ifindex: int, kind: int, pin: Path) -> None:
        if pin.name == f"{node.ifindex['pcup']}-pc_to_pod":
            raise OSError(1, "Operation not permitted")
        tcx_attach(prog, ifindex, kind, pin)

    tcx_attach = tcx.attach
    entries = [endpoint("b", C, "pca"), endpoint("c", B, "pcup")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tcx, "attach", refuse)
        node.load(node.policy().allow("a", "b", ANY), entries=entries)


def _load_with(node: NodeUnderTest, placer: type[NamePlacer]) -> None:
    runtime.load(
        LoadRequest(
            bundle=node.bundle(node.policy()),
            endpoints=node.endpoints(),
            bpffs=node.bpffs,
            state_root=node.state_root,
        ),
        placer=placer,
    )


FAILURES = [
    ("the verifier refuses the policy program", _fail_by_verifier, "kernel refused it"),
    ("the verifier refuses the hooks", _fail_by_hooks, "kernel refused it"),
    ("the shared maps are laid out otherwise", _fail_by_other_maps, "another layout"),
    ("the shared maps have other fields", _fail_by_other_fields, "another layout"),
    ("the shared maps have other names", _fail_by_renamed_maps, "in use: pc_backends"),
    ("an endpoint cannot be placed", _fail_by_placer, "at a loss"),
    ("a placement writes where there is no map", _fail_by_writes, "pc_nowhere"),
    ("a device is missing", _fail_by_device, "pcgone"),
    ("a device cannot be attached to", _fail_by_attach, "cannot attach to pcup"),
]


@pytest.mark.parametrize(
    ("fail", "message"), [c[1:] for c in FAILURES], ids=[c[0] for c in FAILURES]
)
def test_the_previous_generation_stays_after_a_load_that_failed_because(
    node: NodeUnderTest, variant: Callable[..., Path], fail: Callable[..., None], message: str
) -> None:
    """Nothing of the failed generation is left."""
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    before = node.status()
    pins = _pins(node)
    with pytest.raises(NodeError, match=message):
        fail(node, variant)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert not node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
    after = node.status()
    assert before is not None and after is not None
    assert after.programs == before.programs
    assert after.endpoints == before.endpoints
    assert [(m.name, m.entries) for m in after.maps] == [(m.name, m.entries) for m in before.maps]
    assert _pins(node) == pins
    assert _word(node) == switch.Word(0, 1)
    node.load(node.policy().allow("a", "b", tcp_port(81)))
    assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))


OTHER_MAPS = (_fail_by_other_maps, _fail_by_other_fields, _fail_by_renamed_maps)
FIRST = [c for c in FAILURES if c[1] not in OTHER_MAPS]


@pytest.mark.parametrize(("fail", "message"), [c[1:] for c in FIRST], ids=[c[0] for c in FIRST])
def test_nothing_is_left_after_a_first_load_that_failed_because(
    node: NodeUnderTest, variant: Callable[..., Path], fail: Callable[..., None], message: str
) -> None:
    with pytest.raises(NodeError, match=message):
        fail(node, variant)
    assert node.status() is None
    assert not node.bpffs.exists()
    assert not list(node.state_root.rglob("*.json"))


def test_the_next_load_clears_the_remains_of_a_killed_load(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))

    def step() -> None:
        monkeypatch.setattr(switch, "store", die)
        node.load(node.policy())

    killed(step)
    node.n_bundles += 1
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert sorted(node.pins.generations()) == [1, 2]
    node.load(node.policy().allow("a", "b", tcp_port(81)))
    assert sorted(node.pins.generations()) == [2]
    assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))


def test_a_lost_record_affects_only_status(node: NodeUnderTest) -> None:
    """The kernel knows what is attached and which ids are taken."""
    node.node_addresses = ()
    policy = node.policy().allow("a", "b", tcp_port(80))
    node.load(policy)
    shutil.rmtree(node.state_root)
    with pytest.raises(HostError, match="is missing"):
        node.status()
    with pytest.raises(NodeError):
        _load_with(node, _WritesNowhere)
    assert _attached(node)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    loaded = node.load(policy)
    assert [each.id for each in loaded.generation.endpoints] == [4, 5, 6]
    assert _attached(node)
    assert node.sent_by("a", frame(A, B, tcp(1001, 80, SYN)))


def _attached(node: NodeUnderTest) -> bool:
    pins = [
        node.pins.link(node.ifindex[device], hook.program)
        for device in ("pca", "pcb")
        for hook in BY_ROLE["pod"]
    ]
    return all(tcx.find(pin) is not None for pin in pins)


def test_replacing_loses_no_packet(node: NodeUnderTest) -> None:
    """Established and new connections, on one CPU while another loads."""
    policy = node.policy().allow("a", "b", ANY)
    node.load(policy)
    assert node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    assert node.sent_by("b", frame(B, A, tcp(80, 1000, SYN | ACK)))
    stop = threading.Event()
    verdicts = {"pass": 0, "drop": 0}

    def traffic() -> None:
        with bpf_syscall.obj_get(node.pins.hook("pc_from_pod")) as fd:
            run = bpf_syscall.TestRun(fd)
            port = 0
            while not stop.is_set():
                port = port % 60000 + 1
                for each in (frame(A, B, tcp(1000, 80)), frame(A, B, udp(port, 53))):
                    passed = run(each, node.ifindex["pca"], node.ifindex["pca"]) == -1
                    verdicts["pass" if passed else "drop"] += 1

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        for _ in range(8):
            node.load(policy)
    finally:
        stop.set()
        thread.join()
    assert verdicts["drop"] == 0
    assert verdicts["pass"] > 1000


def test_a_second_concurrent_command_is_refused(node: NodeUnderTest) -> None:
    with (
        StateDir(node.bpffs, node.state_root).lock(),
        pytest.raises(HostError, match="another `policyc node` command"),
    ):
        node.load(node.policy())


def test_unload_is_idempotent(node: NodeUnderTest) -> None:
    assert not node.unload()
    node.load(node.policy())
    assert node.unload()
    assert not node.unload()
    assert node.status() is None
    assert not list(node.state_root.rglob("*.json"))
    node.load(node.policy().allow("a", "b", ANY))
    assert node.sent_by("a", frame(A, B, udp(1, 2)))


def test_a_bpffs_mounted_at_the_root_itself_is_kept(node: NodeUnderTest, tmp_path: Path) -> None:
    """The folders that tc makes there are ignored."""
    at_mount = NodeUnderTest(tmp_path, node.objects, node.bpffs.parent)
    at_mount.ifindex = node.ifindex
    (node.bpffs.parent / "tc" / "globals").mkdir(parents=True)
    (node.bpffs.parent / "xdp").symlink_to("tc")
    for _ in range(2):
        at_mount.load(node.policy().allow("a", "b", ANY))
        assert at_mount.sent_by("a", frame(A, B, udp(1, 2)))
    assert at_mount.unload()
    assert node.bpffs.parent.is_mount()
    left = {path.name for path in node.bpffs.parent.iterdir() if "debug" not in path.name}
    assert left == {"tc", "xdp"}
    at_mount._forget_programs()
