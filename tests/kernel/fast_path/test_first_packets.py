# SPDX-License-Identifier: Apache-2.0
"""First packets of connections between two pods of a node: past a stack that would only route them."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

import pytest

from policyc.runtime.attach.program_slot import FIRST
from policyc.runtime.kernel import bpf_syscall, rtnetlink
from tests.kernel.support.arrival import SILENCE, WAITS, accepted, connects
from tests.kernel.support.node_under_test import LOCAL, B, NodeUnderTest, ip
from tests.kernel.support.packets import Host
from tests.kernel.support.service_yaml import TARGET, VIP, web
from tests.kernel.support.table_policy import tcp_port
from tests.kernel.support.wire import Wire

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
THERE = {"the pod": (B, 80), "a Service": (VIP, TARGET)}
ELSEWHERE = ("src", "192.0.2.0/24", "dst", "198.51.100.0/24", "dir", "fwd")
_ETH_P_ALL, _OUTGOING = 3, 4


@pytest.fixture
def wire(node: NodeUnderTest) -> Iterator[Wire]:
    with ExitStack() as owned:
        yield Wire(node, owned)


class Leaving:
    """Hears what the node's stack sends by the devices of its pods."""

    def __init__(self, owned: ExitStack) -> None:
        self._taps = {pod: self._tap(device, owned) for pod, device in LOCAL.items()}

    @staticmethod
    def _tap(device: str, owned: ExitStack) -> socket.socket:
        tap = owned.enter_context(
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        )
        tap.bind((device, _ETH_P_ALL))
        tap.settimeout(SILENCE)
        return tap

    def to(self, pod: str) -> int:
        """How many TCP or UDP packets that have left to the pod; none of before that was heard."""
        found = 0
        with suppress(TimeoutError):
            while True:
                whole, (_, _, kind, *_) = self._taps[pod].recvfrom(1 << 16)
                proto = whole[23] if whole[12:14] == b"\x08\x00" else whole[20]
                found += kind == _OUTGOING and proto in (6, 17)
        return found


class Talk:
    """Pod b listens; pod a opens a connection each time."""

    def __init__(self, wire: Wire, family: int, there: Host = B, port: int = 80) -> None:
        self._wire, self._address = wire, there.address(family)
        self._listener = wire.listen("b", port, family)

    def once(self) -> None:
        """A request and an answer."""
        client = self._wire.connect("a", self._address, 80)
        assert client
        with client, accepted(self._listener) as server:
            for sender, receiver in ((client, server), (server, client)):
                receiver.settimeout(WAITS)
                sender.sendall(b"hello")
                assert receiver.recv(16) == b"hello"


@families
@pytest.mark.both_families
@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_no_packet_of_a_connection_passes_the_stack(
    node: NodeUnderTest, wire: Wire, mode: str, there: str, family: int
) -> None:
    host, port = THERE[there]
    node.load(node.policy().allow("a", "b", tcp_port(port)), mode=mode, services=web(B))
    with ExitStack() as owned:
        leaving = Leaving(owned)
        Talk(wire, family, host, port).once()
        assert {pod: leaving.to(pod) for pod in LOCAL} == {"a": 0, "b": 0}
    assert node.drops() == {}


@families
def test_the_policy_of_the_receiver_holds_for_first_packets(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(81)))
    wire.listen("b", 80, family)
    assert not connects(wire.tcp_socket("a", family), (B.address(family), 80), SILENCE)
    assert node.drops() == {"policy": node.drops()["policy"]}
    with ExitStack() as owned:
        leaving = Leaving(owned)
        wire.listen("b", 81, family)
        assert connects(wire.tcp_socket("a", family), (B.address(family), 81))
        assert leaving.to("b") == 0


@contextmanager
def nft(hook: str, rule: str = "", device: str = "") -> Iterator[None]:
    """A chain of nftables at this hook."""
    kind, where = ("netdev", f"device {device} ") if device else ("inet", "")
    chain = f"type filter hook {hook} {where}priority 0\n{rule}\n"
    text = f"table {kind} first {{\nchain c {{\n{chain}}}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", kind, "first"], check=True)


@contextmanager
def xfrm() -> Iterator[None]:
    ip("xfrm", "policy", "add", *ELSEWHERE, "action", "block")
    try:
        yield
    finally:
        ip("xfrm", "policy", "delete", *ELSEWHERE)


@contextmanager
def back_elsewhere(family: int) -> Iterator[None]:
    """Replies would be routed by the loopback device."""
    kind = f"-{family}"
    ip(kind, "rule", "add", "from", B.address(family), "lookup", "77", "priority", "5")
    ip(kind, "route", "add", "unreachable", "default", "table", "77")
    try:
        yield
    finally:
        ip(kind, "route", "delete", "unreachable", "default", "table", "77")
        ip(kind, "rule", "delete", "priority", "5")


STACK: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a chain in prerouting": lambda: nft("prerouting"),
    "a chain in forward": lambda: nft("forward"),
    "a chain in postrouting": lambda: nft("postrouting"),
    "a chain at the sender's device": lambda: nft("ingress", device=LOCAL["a"]),
    "an IPsec policy": xfrm,
}
"""What the stack may do with packets, from the next packet on."""


@families
@pytest.mark.both_families
@pytest.mark.parametrize("why", STACK)
def test_the_stack_sees_first_packets_that_it_may_change_or_drop(
    node: NodeUnderTest, wire: Wire, why: str, family: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        leaving, talk = Leaving(owned), Talk(wire, family)
        with STACK[why]():
            talk.once()
        assert leaving.to("b") == 1, "the SYN"
        assert leaving.to("a") == 1, "the SYN-ACK"
        talk.once()
        assert {pod: leaving.to(pod) for pod in LOCAL} == {"a": 0, "b": 0}


def test_the_stack_asks_for_an_unknown_neighbour(node: NodeUnderTest, wire: Wire) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    ip("neigh", "delete", B.ip4, "dev", LOCAL["b"])
    with ExitStack() as owned:
        leaving, talk = Leaving(owned), Talk(wire, 4)
        talk.once()
        assert leaving.to("b") == 1, "the SYN"
        talk.once()
        assert leaving.to("b") == 0


@families
def test_the_stack_sees_a_packet_whose_reply_is_routed_elsewhere(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        leaving = Leaving(owned)
        wire.listen("b", 80, family)
        with back_elsewhere(family):
            assert not connects(wire.tcp_socket("a", family), (B.address(family), 80), SILENCE)
        assert leaving.to("b") >= 1


@families
@pytest.mark.both_families
def test_a_firewall_of_the_node_drops_first_packets(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    """It comes after the load."""
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    wire.listen("b", 80, family)
    with nft("forward", "tcp dport 80 drop"):
        assert not connects(wire.tcp_socket("a", family), (B.address(family), 80), SILENCE)
    assert connects(wire.tcp_socket("a", family), (B.address(family), 80))


@contextmanager
def tcx_link(node: NodeUnderTest, program: int) -> Iterator[None]:
    with bpf_syscall.link_create_tcx(
        program, node.ifindex[LOCAL["b"]], bpf_syscall.ATTACH_TCX_EGRESS
    ):
        yield


@contextmanager
def tc_filter(node: NodeUnderTest, program: int) -> Iterator[None]:
    with rtnetlink.connection("a test") as netlink:
        where = node.ifindex[LOCAL["b"]]
        with suppress(rtnetlink.refused()):
            netlink.tc("add", "clsact", where)
        netlink.tc(
            "add-filter", "bpf", where, 7, fd=program, name="other", parent=0xFFFFFFF3, prio=3,
            protocol=3, classid=1, direct_action=True,
        )  # fmt: skip
        yield
        netlink.tc("del-filter", "bpf", where, 7, parent=0xFFFFFFF3, prio=3, protocol=3)


@contextmanager
def netdev_chain(node: NodeUnderTest, program: int) -> Iterator[None]:
    with nft("egress", device=LOCAL["b"]):
        yield


@pytest.mark.parametrize("other", [tcx_link, tc_filter, netdev_chain])
@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_a_load_leaves_first_packets_to_other_software_at_a_pods_device(
    node: NodeUnderTest,
    wire: Wire,
    mode: str,
    other: Callable[[NodeUnderTest, int], AbstractContextManager[None]],
) -> None:
    policy = node.policy().allow("a", "b", tcp_port(80))
    node.load(policy, mode=mode)
    with ExitStack() as owned, bpf_syscall.obj_get(node.pins.hook("pc_netkit")) as passing:
        leaving, talk = Leaving(owned), Talk(wire, 4)
        with other(node, passing):
            node.load(policy, mode=mode)
            assert not FIRST.program(node.pins)
            found = node.status()
            assert found is not None and not found.first_packets
            talk.once()
            assert (leaving.to("b"), leaving.to("a")) == (1, 1)
        node.load(policy, mode=mode)
        talk.once()
        assert (leaving.to("b"), leaving.to("a")) == (0, 0)
    (text,) = node.notes
    assert text.endswith("so first packets between pods take the stack path")
    assert "netdev" in text or LOCAL["b"] in text


def test_on_the_stack_path_first_packets_take_it(node: NodeUnderTest, wire: Wire) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)), forward="stack")
    assert not FIRST.program(node.pins)
    with ExitStack() as owned:
        leaving = Leaving(owned)
        Talk(wire, 4).once()
        assert leaving.to("b") > 1
