# SPDX-License-Identifier: Apache-2.0
"""`policyc node attest` reports what was tampered with on a node, and nothing else."""

import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.eval.lab import (
    lab_endpoints,
    lab_pods,
    metadata_of,
)
from policyc.compiler.frontend import PathSource, ReadOptions, read_cluster
from policyc.runtime import switch
from policyc.runtime.attach import attach
from policyc.runtime.attach.program_slot import FIRST, FROM_TUNNEL, ProgramSlot
from policyc.runtime.bundle.bundle import POLICY_OBJECT
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.topology import Lab
from policyc.runtime.maps.settings import FirstPacketSettings
from policyc.runtime.undo import Undo

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("loads_of_children")]
ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "online-shop"
POLICIES = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: payments}
spec:
  podSelector: {}
  ingress:
  - from: [{podSelector: {}}, {ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.7/32]}}]
    ports: [{port: 80, endPort: 90}]
"""
"""Compiled without a cluster: every pod takes rows and columns that the node makes."""


@dataclass
class Running:
    """A node on which a bundle is loaded."""

    lab: Lab
    bundle: Path
    endpoints: Path

    @property
    def pins(self) -> Pins:
        return Pins(self.lab.node.bpffs)

    @property
    def maps(self) -> Path:
        """The folder of the generation's own maps."""
        return self.pins.generation(switch.read(self.pins.map("pc_state")).epoch)

    def here(self, command: list[str]) -> int:
        return self.lab.node.run_in(lambda: run([*command, "--bpffs", str(self.lab.node.bpffs)]))

    def load(self, *more: str) -> int:
        given = ["node", "load", str(self.bundle), "--endpoints", str(self.endpoints)]
        return self.here([*given, *more])

    def attest(self, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[str]]:
        capfd.readouterr()
        given = ["node", "attest", str(self.bundle), "--endpoints", str(self.endpoints)]
        code = self.here([*given, "--format", "json", *more])
        found: dict[str, Any] = json.loads(capfd.readouterr().out)
        schema = json.loads((ROOT / "docs/schemas/attest-result-v1.schema.json").read_text())
        jsonschema.Draft202012Validator(schema).validate(found)
        assert all(part["compared"] for part in found["parts"])
        return code, [fault for part in found["parts"] for fault in part["faults"]]


def _goes(running: Running, device: str) -> None:
    running.lab.node.run_in(lambda: subprocess.run(["ip", "link", "del", device], check=True))


def compiled(out: Path, *given: str) -> Path:
    assert run(["compile", *given, "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attested")
    (folder / "policies.yaml").write_text(POLICIES)
    return compiled(folder / "bundle", "-f", str(folder / "policies.yaml"))


@pytest.fixture
def running(bundle: Path, tmp_path: Path) -> Iterator[Running]:
    with OnANode(tmp_path, bundle) as found:
        yield found


class OnANode:
    """Load a bundle for the pods of the shop's payments on a node of its own."""

    def __init__(self, folder: Path, bundle: Path) -> None:
        universe = read_cluster([PathSource(str(SHOP / "cluster"))], ReadOptions()).universe
        self.pods = [pod for pod in lab_pods(universe) if pod.namespace == "payments"][:2]
        assert len(self.pods) == 2
        self.folder, self.bundle = folder, bundle

    def __enter__(self) -> Running:
        self.lab = Lab(lab_endpoints(self.pods)).__enter__()
        endpoints = self.folder / "endpoints.json"
        self.lab.node.write_endpoints(endpoints, metadata_of(self.pods))
        found = Running(self.lab, self.bundle, endpoints)
        if found.load() != 0:
            self.lab.__exit__(None, None, None)
            pytest.fail("the bundle is not loaded")
        return found

    def __exit__(self, *failure: Any) -> None:
        self.lab.__exit__(*failure)


@pytest.mark.fresh
def test_a_loaded_bundle_is_attested(running: Running, capfd: pytest.CaptureFixture[str]) -> None:
    assert running.attest(capfd) == (0, [])
    assert running.load("--forwarding", "stack") == 0
    assert running.attest(capfd) == (0, [])


@pytest.mark.slow
def test_a_bundle_of_a_cluster_is_attested_with_its_proof(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is proved first from the same policies and cluster. Policies of one namespace take less
    time.
    """
    policies, cluster = str(SHOP / "policies" / "payments.yaml"), str(SHOP / "cluster")
    given = ["-f", policies, "--cluster", cluster]
    with OnANode(tmp_path, compiled(tmp_path / "bundle", *given)) as running:
        proof = ["--reprove", policies, "--reprove-cluster", cluster]
        assert running.attest(capfd, *proof) == (0, [])


def set_word(pin: Path, key: bytes, word: int) -> None:
    with bpf_syscall.obj_get(pin) as fd:
        info = bpf_syscall.map_info(fd)
        before = bpf_syscall.map_lookup(fd, key, info.value_size)
        assert before is not None
        bpf_syscall.map_update(fd, key, struct.pack("<I", word) + before[4:])


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("pc_cells_in", 0),
        pytest.param("pc_cells_in", 130, marks=pytest.mark.slow),
        pytest.param("pc_nodes", 3, marks=pytest.mark.slow),
        ("pc_class", 1),
    ],
)
def test_attest_reports_a_tampered_entry(
    running: Running, name: str, index: int, capfd: pytest.CaptureFixture[str]
) -> None:
    set_word(running.maps / name, struct.pack("=I", index), 0xC0000000)
    code, faults = running.attest(capfd)
    assert code == 1 and len(faults) == 1
    assert faults[0].startswith(f"{name}[{index}]")
    assert faults[0].partition(": ")[2].startswith("found 000000c0")
    assert ("payments/" in faults[0]) == (name == "pc_class")


def test_attest_reports_an_entry_for_an_unused_id(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    """A pod that got the id 77 would be in a class."""
    set_word(running.maps / "pc_class", struct.pack("=I", 77), 5)
    code, faults = running.attest(capfd)
    assert code == 1 and [fault.partition(":")[0] for fault in faults] == ["pc_class[77]"]


def test_attest_reports_the_class_of_a_removed_pod(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    """The load deleted it. If left, it would be the class of the next pod with that id."""
    before = classes(running)
    file = json.loads(running.endpoints.read_text())
    file["endpoints"].pop()
    running.endpoints.write_text(json.dumps(file))
    assert running.load() == 0
    assert running.attest(capfd) == (0, [])
    (gone,) = before.keys() - classes(running).keys()
    key = struct.pack("=I", gone)
    with bpf_syscall.obj_get(running.maps / "pc_class") as fd:
        bpf_syscall.map_update(fd, key, before[gone])
    code, faults = running.attest(capfd)
    assert code == 1 and [fault.partition(":")[0] for fault in faults] == [f"pc_class[{gone}]"]


def classes(running: Running) -> dict[int, bytes]:
    """Those of the first ids that are not empty."""
    with bpf_syscall.obj_get(running.maps / "pc_class") as fd:
        size = bpf_syscall.map_info(fd).value_size
        values = {
            ident: bpf_syscall.map_lookup(fd, struct.pack("=I", ident), size) or b""
            for ident in range(64)
        }
    return {ident: value for ident, value in values.items() if any(value)}


def test_attest_reports_a_foreign_device(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with bpf_syscall.obj_get(running.pins.map("pc_if")) as fd:
        size = bpf_syscall.map_info(fd).value_size
        bpf_syscall.map_update(fd, struct.pack("=I", 4000), bytes(size))
    code, faults = running.attest(capfd)
    assert code == 1
    assert [fault.partition(": found")[0] for fault in faults] == ["pc_if: device 4000"]
    assert "expected no endpoint" in faults[0]


def test_attest_reports_pods_that_the_file_no_longer_lists(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    file = json.loads(running.endpoints.read_text())
    gone = file["endpoints"].pop()
    running.endpoints.write_text(json.dumps(file))
    code, faults = running.attest(capfd)
    assert code == 1
    for address in gone["addresses"]:
        name = f"pc_ep{ip_address(address).version}: {address}"
        assert any(fault.startswith(name) for fault in faults), name


def test_attest_reports_a_swapped_first_packet_program(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The program of an empty policy set, in the slot in force."""
    (tmp_path / "other.yaml").write_text(POLICIES.replace("port: 80, endPort: 90", "port: 81"))
    other = compiled(
        tmp_path / "other", "-f", str(tmp_path / "other.yaml"), "--rule-counters", "none"
    )
    word = switch.read(running.pins.map("pc_state"))
    with Object(other / POLICY_OBJECT, running.pins.maps) as loaded:
        loaded.load()
        put_into_slot(running, word.slot, loaded.program_fd("pc_policy_run"))
    code, faults = running.attest(capfd)
    assert code == 1 and len(faults) == 1
    assert faults[0].startswith("pc_policy: the program pc_policy_run") and "tag" in faults[0]


def put_into_slot(running: Running, slot: int, program: int) -> None:
    with bpf_syscall.obj_get(running.pins.map("pc_policy")) as fd:
        bpf_syscall.map_update(fd, struct.pack("=I", slot), struct.pack("=I", program))


def test_attest_reports_an_uplinks_hook_that_calls_nothing(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    FROM_TUNNEL.clear(running.pins)
    assert running.attest(capfd) == (1, ["pc_tunnel_slot: no program is called"])


@pytest.mark.parametrize("slot", [FROM_TUNNEL, FIRST], ids=lambda slot: slot.name)
def test_attest_reports_another_program_that_hooks_or_policy_call(
    running: Running, capfd: pytest.CaptureFixture[str], slot: ProgramSlot
) -> None:
    hook, at = running.pins.hook("pc_to_pod"), running.pins.map(slot.name)
    with bpf_syscall.obj_get(hook) as other, bpf_syscall.obj_get(at) as fd:
        bpf_syscall.map_update(fd, bytes(4), struct.pack("=I", other))
    code, (fault,) = running.attest(capfd)
    assert code == 1 and fault.startswith(f"{slot.name}: the program pc_to_pod")


def test_attest_reports_another_number_of_netfilter_hooks(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with FirstPacketSettings(running.pins) as known, Undo() as undo:
        before = known.n_hooks
        known.write(before + 1, known.has_other_nodes, undo)
        fault = f"pc_first_conf: {before + 1} hooks are called ours, expected {before}"
        assert running.attest(capfd) == (1, [fault])


def test_attest_reports_first_packets_by_uplinks_that_the_load_did_not_allow(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with FirstPacketSettings(running.pins) as known, Undo() as undo:
        known.write(known.n_hooks, not known.has_other_nodes, undo)
        fault = "pc_first_conf: other_nodes is True, expected False"
        assert running.attest(capfd) == (1, [fault])


@pytest.mark.parametrize("options", [(), ("--forwarding", "stack")], ids=["redirect", "stack"])
def test_attest_reports_first_packets_between_pods_that_differ_from_the_load(
    running: Running, options: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    assert running.load(*options) == 0
    assert running.attest(capfd) == (0, [])
    at = running.pins.map(FIRST.name)
    with bpf_syscall.obj_get(running.pins.hook("pc_first")) as hook, bpf_syscall.obj_get(at) as fd:
        if options:
            bpf_syscall.map_update(fd, bytes(4), struct.pack("=I", hook))
        else:
            bpf_syscall.map_delete(fd, bytes(4))
    fault = "a program is called, expected none" if options else "no program is called"
    assert running.attest(capfd) == (1, [f"{FIRST.name}: {fault}"])


def test_attest_reports_the_same_program_over_other_tables(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its tag is right, but it reads empty tables."""
    word = switch.read(running.pins.map("pc_state"))
    with Object(running.bundle / POLICY_OBJECT, running.pins.maps) as loaded:
        loaded.load()
        put_into_slot(running, word.slot, loaded.program_fd("pc_policy_run"))
    code, faults = running.attest(capfd)
    assert code == 1 and faults
    assert all("uses a map that is not pinned here" in fault for fault in faults)


def test_attest_reports_an_empty_slot(running: Running, capfd: pytest.CaptureFixture[str]) -> None:
    word = switch.read(running.pins.map("pc_state"))
    with bpf_syscall.obj_get(running.pins.map("pc_policy")) as fd:
        bpf_syscall.map_delete(fd, struct.pack("=I", word.slot))
    code, faults = running.attest(capfd)
    assert (code, faults) == (1, ["pc_policy: the active slot has no policy program"])


@pytest.mark.parametrize("is_asked", [False, True], ids=["silence", "resets"])
def test_attest_reports_resets_that_the_load_did_not_enable(
    running: Running, is_asked: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    assert running.load(*["--reset-revoked"] * is_asked) == 0
    assert running.attest(capfd) == (0, [])
    with bpf_syscall.obj_get(running.maps / "pc_on_revoked") as fd:
        if is_asked:
            bpf_syscall.map_delete(fd, bytes(4))
        else:
            with bpf_syscall.obj_get(running.pins.hook("pc_from_pod")) as program:
                bpf_syscall.map_update(fd, bytes(4), struct.pack("=I", program))
    said = "are not" if is_asked else "are"
    fault = f"pc_on_revoked: revoked connections {said} reset, contrary to the options of the load"
    assert running.attest(capfd) == (1, [fault])


@pytest.mark.parametrize("folder", ["generation", "maps"])
def test_attest_reports_other_tables_that_are_pinned(
    running: Running, folder: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Under unused names, or in the place of the right ones."""
    word = switch.read(running.pins.map("pc_state"))
    where = running.maps if folder == "generation" else running.pins.maps
    with Object(running.bundle / POLICY_OBJECT, running.pins.maps) as loaded:
        loaded.load()
        for number, (_, fd) in enumerate(loaded.own_maps()):
            bpf_syscall.obj_pin(fd, where / f"x{number}")
        put_into_slot(running, word.slot, loaded.program_fd("pc_policy_run"))
    code, faults = running.attest(capfd)
    assert code == 1 and "unlike the bundle's program" in faults[0]


@pytest.mark.parametrize("flag", ["has_host", "masquerades"])
def test_attest_reports_a_changed_state_word(
    running: Running, flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pin = running.pins.map("pc_state")
    switch.store(pin, replace(switch.read(pin), **{flag: True}))
    code, faults = running.attest(capfd)
    assert (code, faults) == (1, [f"pc_state: {flag} is True, expected False"])


def another_link(running: Running) -> None:
    """The link of another device under this one's name: the device itself runs nothing."""
    taken_off(running)
    links = sorted(running.pins.links.iterdir())
    hook = links[0].name.partition("-")[2]
    other = next(each for each in links[1:] if each.name.endswith(hook))
    links[0].unlink()
    with bpf_syscall.obj_get(other) as fd:
        bpf_syscall.obj_pin(fd, links[0])


def swapped_hook(running: Running) -> None:
    """pc_from_pod where pc_to_pod belongs."""
    pin = running.pins.hook("pc_to_pod")
    pin.unlink()
    with bpf_syscall.obj_get(running.pins.hook("pc_from_pod")) as fd:
        bpf_syscall.obj_pin(fd, pin)


def taken_off(running: Running) -> None:
    """The first device's hook is detached, as by any process with CAP_NET_ADMIN."""
    link = sorted(running.pins.links.iterdir())[0]
    assert link.name.endswith(tuple(hook.program for hook in attach.HOOKS))
    with bpf_syscall.obj_get(link) as fd:
        bpf_syscall.link_detach(fd)


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (swapped_hook, "has the tag"),
        (taken_off, "is not attached"),
        (another_link, "is not attached"),
    ],
)
def test_attest_reports_hooks_that_are_not_the_bundles(
    running: Running,
    tamper: Callable[[Running], None],
    said: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    running.lab.node.run_in(lambda: tamper(running))
    code, faults = running.attest(capfd)
    assert code == 1 and len(faults) == 1 and said in faults[0]


def test_attest_reports_another_bundle_than_the_loaded_one(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.yaml").write_text(POLICIES.replace("port: 80, endPort: 90", "port: 81"))
    running.bundle = compiled(tmp_path / "other", "-f", str(tmp_path / "other.yaml"))
    code, faults = running.attest(capfd)
    assert code == 1 and any(fault.startswith("pc_") for fault in faults)


def test_attest_proves_the_bundle_first_with_reprove(
    running: Running, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.yaml").write_text(POLICIES.replace("port: 80, endPort: 90", "port: 81"))
    given = ["node", "attest", str(running.bundle), "--endpoints", str(running.endpoints)]
    assert running.here([*given, "--reprove", str(tmp_path / "other.yaml")]) == 2
    assert "PC0920" in capfd.readouterr().err
    assert running.here([*given, "--reprove-cluster", "x"]) == 2


def test_attest_reports_that_nothing_is_loaded(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    assert running.here(["node", "unload"]) == 0
    given = ["node", "attest", str(running.bundle), "--endpoints", str(running.endpoints)]
    assert running.here(given) == 3
    assert "nothing is loaded on this node" in capfd.readouterr().err


def test_a_pod_whose_device_was_gone_at_the_load_is_attested(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    pods = json.loads(running.endpoints.read_text())["endpoints"]
    device = next(pod["interface"] for pod in pods if "interface" in pod)
    _goes(running, device)
    assert running.load("--missing-devices", "skip") == 0
    assert running.attest(capfd) == (0, [])
