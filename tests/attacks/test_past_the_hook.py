# SPDX-License-Identifier: Apache-2.0
"""A pod with CAP_NET_ADMIN sends packets past the hook at its device.

Its device ifb sends packets on with tc_skip_classify set. The node's side of the pair then runs no tc
ingress, which has the hook.
"""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.lab.topology import Lab, LabEndpoint
from policyc.runtime.observe.attest import attest
from tests.kernel.support.bundles import compiled
from tests.kernel.support.loaded_lab import FAMILIES, PATIENCE, PORT, SILENCE, LoadedLab
from tests.kernel.support.objects import compile_c
from tests.kernel.support.wire import link_address

pytestmark = pytest.mark.kernel

POLICIES = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: shop}
spec:
  podSelector: {matchLabels: {app: closed}}
  policyTypes: [Egress]
"""
MARK = 7
"""Of by_ifb.bpf.c."""
_SO_MARK = 36
families = pytest.mark.parametrize("family", FAMILIES)
targets = pytest.mark.parametrize("target", ["external", "node-1", "open"])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, loads_of_module: None) -> Iterator[LoadedLab]:
    """The pod `closed` may send nothing. Nothing is loaded yet."""
    pods = [
        LabEndpoint("shop", name, IPv4Address(f"10.244.1.{n}"), IPv6Address(f"fd00:1::{n}"))
        for n, name in enumerate(("closed", "open"), 11)
    ]
    folder = tmp_path_factory.mktemp("past")
    with Lab(pods) as made:
        found = LoadedLab(made, folder, {"closed": "closed", "open": "open"})
        found.write_endpoints()
        with _evading(found, folder):
            yield found


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("bundle"), POLICIES, "--backend", "llvm")


@pytest.fixture
def loaded(lab: LoadedLab, bundle: Path) -> Iterator[None]:
    lab.load(bundle)
    yield
    lab.unload()


@contextmanager
def _evading(lab: LoadedLab, folder: Path) -> Iterator[None]:
    """Marked packets of the pod `closed` go by its device ifb."""
    source = Path(__file__).with_name("by_ifb.bpf.c")
    compile_c(source, folder / "by_ifb.bpf.o")
    pin = lab.lab.node.bpffs / "k_marked"
    with Object(folder / "by_ifb.bpf.o", lab.lab.node.bpffs) as classifier:
        classifier.load()
        bpf_syscall.obj_pin(classifier.program_fd("k_marked"), pin)
    redirect = f"bpf object-pinned {pin} action mirred egress redirect dev ifb9"
    for command in (
        "ip link add ifb9 up type ifb",
        "tc qdisc add dev eth0 clsact",
        f"tc filter add dev eth0 egress protocol all prio 1 {redirect}",
    ):
        lab.within("closed", lambda command=command: _run(command))
    pin.unlink()
    yield


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True, text=True)


def _arrives(lab: LoadedLab, target: str, family: int, patience: float) -> bool:
    """Whether a datagram that goes by the device ifb arrives."""
    with (
        lab.socket(target, socket.SOCK_DGRAM, family, PORT) as server,
        lab.socket("closed", socket.SOCK_DGRAM, family) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, _SO_MARK, MARK)
        client.sendto(b"evading", (lab.address(target, family), PORT))
        server.settimeout(patience)
        try:
            return server.recv(100) == b"evading"
        except TimeoutError:
            return False


@families
@targets
def test_without_policies_the_packets_arrive(lab: LoadedLab, target: str, family: int) -> None:
    assert _arrives(lab, target, family, PATIENCE)


@families
@targets
def test_a_packet_that_skips_the_hook_does_not_arrive(
    lab: LoadedLab, loaded: None, target: str, family: int
) -> None:
    before = lab.drops("unchecked")
    assert not _arrives(lab, target, family, SILENCE)
    assert lab.drops("unchecked") > before


@families
def test_other_packets_pass(lab: LoadedLab, loaded: None, family: int) -> None:
    for source, target in (("open", "external"), ("external", "open"), ("open", "node-1")):
        assert lab.asks(source, target, family), (source, target)
        assert lab.connects(source, target, family, size=1 << 20) == "open", (source, target)
    assert lab.drops("unchecked") == 0


@pytest.fixture
def bridged(lab: LoadedLab) -> Iterator[None]:
    """The pod `closed` is on a bridge of the node, which has bridge-nf-call-iptables."""
    pod = lab.lab.node.pods[0]

    def make() -> None:
        _run("ip link add br0 type bridge")
        _run(f"ip link set br0 address {link_address(pod.interface)} up")
        _run(f"ip link set {pod.interface} master br0")
        for family, name in ((4, "iptables"), (6, "ip6tables")):
            address = lab.address("closed", family)
            _run(f"ip -{family} route replace {address} dev br0")
            _run(f"ip -{family} neigh replace {address} lladdr {pod.mac} dev br0 nud permanent")
            Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}").write_text("1")

    def undo() -> None:
        _run("ip link del br0")
        for family in FAMILIES:
            address = lab.address("closed", family)
            _run(f"ip -{family} route replace {address} dev {pod.interface}")

    lab.on_node(make)
    yield
    lab.on_node(undo)


@families
@pytest.mark.parametrize("target", ["external", "node-1"])
def test_on_a_bridge_that_calls_netfilter_it_is_the_same(
    bridged: None, lab: LoadedLab, bundle: Path, target: str, family: int
) -> None:
    assert _arrives(lab, target, family, PATIENCE)
    lab.load(bundle)
    try:
        assert not _arrives(lab, target, family, SILENCE)
        assert lab.drops("unchecked") > 0
        assert lab.asks("open", "external", family)
    finally:
        lab.unload()


def test_packets_of_a_pod_without_its_hook_do_not_arrive(lab: LoadedLab, loaded: None) -> None:
    pins = Pins(lab.lab.node.bpffs)
    device = lab.on_node(lambda: socket.if_nametoindex(lab.lab.node.pods[0].interface))
    with bpf_syscall.obj_get(pins.link(device, "pc_from_pod")) as link:
        bpf_syscall.link_detach(link)
    assert not lab.asks("closed", "external", 4, patience=SILENCE)
    assert lab.drops("unchecked") > 0


def test_after_another_load_it_still_holds(lab: LoadedLab, loaded: None, bundle: Path) -> None:
    lab.load(bundle)
    assert not _arrives(lab, "external", 4, SILENCE)
    assert len(list(Pins(lab.lab.node.bpffs).prerouting.iterdir())) == len(FAMILIES)


def test_a_program_that_is_detached_is_reported(lab: LoadedLab, loaded: None, bundle: Path) -> None:
    node, state = lab.lab.node, lab.folder / "state"
    (at,) = (each for each in Pins(node.bpffs).prerouting.iterdir() if "IPv6" in each.name)
    at.unlink()
    found = lab.on_node(lambda: attest(bundle, lab.endpoints, bpffs=node.bpffs, state_root=state))
    assert [fault for part in found.parts for fault in part.faults] == [
        "netfilter, IPv6: pc_prerouting is not attached"
    ]
