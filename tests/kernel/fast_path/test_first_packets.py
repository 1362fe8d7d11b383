# SPDX-License-Identifier: Apache-2.0
"""First packets of connections between two pods of a node: past a stack that would only route them."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import prerouting
from policyc.runtime.attach.program_slot import FIRST
from policyc.runtime.kernel import bpf_syscall, rtnetlink
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.kernel.pins import Pins
from tests.kernel.support.arrival import SILENCE, WAITS, connects, is_silent
from tests.kernel.support.fast_path import ConnectionsOfPods, ipsec_policy
from tests.kernel.support.netfilter_hooks import FEWEST
from tests.kernel.support.node_under_test import HOSTS, LOCAL, A, B, NodeUnderTest, ip
from tests.kernel.support.objects import compile_c
from tests.kernel.support.packets import Host, mac_bytes
from tests.kernel.support.service_yaml import TARGET, VIP, web
from tests.kernel.support.table_policy import ANY, tcp_port
from tests.kernel.support.wire import Wire, link_address

pytestmark = pytest.mark.kernel


families = pytest.mark.parametrize("family", [4, 6])
THERE = {"the pod": (B, 80), "a Service": (VIP, TARGET)}
MARKING = """\
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("tc") int mark(struct __sk_buff *skb) { skb->mark = 5; return -1; }
char mark_license[] SEC("license") = "GPL";
"""
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
                found += kind == _OUTGOING and protocol(whole) in (6, 17)
        return found


def tap(wire: Wire, pod: str, owned: ExitStack) -> socket.socket:
    """Hears what comes in at the pod's own device."""

    def made() -> socket.socket:
        found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        found.bind((f"{LOCAL[pod]}.p", _ETH_P_ALL))
        return found

    found = wire.within(pod, made)
    assert isinstance(found, socket.socket)
    owned.enter_context(found)
    found.settimeout(SILENCE)
    return found


def came_in(hears: socket.socket) -> Iterator[bytes]:
    """TCP packets."""
    with suppress(TimeoutError):
        while True:
            whole, (_, _, kind, *_) = hears.recvfrom(1 << 16)
            if kind == socket.PACKET_HOST and protocol(whole) == 6:
                yield whole


def protocol(whole: bytes) -> int:
    return whole[23] if whole[12:14] == b"\x08\x00" else whole[20]


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
        ConnectionsOfPods(wire, family, host, port).once()
        assert {pod: leaving.to(pod) for pod in LOCAL} == {"a": FEWEST, "b": FEWEST}
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
        assert leaving.to("b") == FEWEST


@contextmanager
def nft(hook: str, rule: str = "", device: str = "", kind: str = "inet") -> Iterator[None]:
    """A chain of nftables at this hook, in a table of this family."""
    where = f"device {device} " if device else ""
    chain = f"type filter hook {hook} {where}priority 0\n{rule}\n"
    text = f"table {kind} first {{\nchain c {{\n{chain}}}\n}}\n"
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", kind, "first"], check=True)


STACK: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a chain in prerouting": lambda: nft("prerouting"),
    "a chain in forward": lambda: nft("forward"),
    "a chain in postrouting": lambda: nft("postrouting"),
    "a chain at the sender's device": lambda: nft("ingress", device=LOCAL["a"], kind="netdev"),
    "an IPsec policy": lambda: ipsec_policy(ip),
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
        leaving, talk = Leaving(owned), ConnectionsOfPods(wire, family, B)
        with STACK[why]():
            talk.once()
        assert leaving.to("b") == 1, "the SYN"
        assert leaving.to("a") == 1, "the SYN-ACK"
        talk.once()
        assert {pod: leaving.to(pod) for pod in LOCAL} == {"a": FEWEST, "b": FEWEST}


def test_the_stack_asks_for_an_unknown_neighbour(node: NodeUnderTest, wire: Wire) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    ip("neigh", "delete", B.ip4, "dev", LOCAL["b"])
    with ExitStack() as owned:
        leaving, talk = Leaving(owned), ConnectionsOfPods(wire, 4, B)
        talk.once()
        assert leaving.to("b") == 1, "the SYN"
        talk.once()
        assert leaving.to("b") == FEWEST


def other_mac(family: int) -> None:
    """The neighbour has another MAC than the pod."""
    neighbour(family, B, LOCAL["b"], "02:00:00:00:0f:0f")


def other_device(family: int) -> None:
    """The route to the receiver leads back to the sender's device."""
    neighbour(family, B, LOCAL["a"], B.mac)
    ip(f"-{family}", "route", "replace", prefix(B, family), "dev", LOCAL["a"])


def back_by_rule(family: int) -> None:
    """A rule by source leaves replies without a route."""
    kind = f"-{family}"
    ip(kind, "rule", "add", "from", B.address(family), "lookup", "77", "priority", "5")
    ip(kind, "route", "add", "unreachable", "default", "table", "77")


def back_by_other_device(family: int) -> None:
    neighbour(family, A, LOCAL["b"], A.mac)
    ip(f"-{family}", "route", "replace", prefix(A, family), "dev", LOCAL["b"])


def back_to_other_mac(family: int) -> None:
    neighbour(family, A, LOCAL["a"], "02:00:00:00:0f:0f")


def neighbour(family: int, pod: Host, device: str, mac: str) -> None:
    ip("neigh", "replace", pod.address(family), "lladdr", mac, "dev", device, "nud", "permanent")


def prefix(pod: Host, family: int) -> str:
    return f"{pod.address(family)}/{32 if family == 4 else 128}"


ELSEWHERE_ROUTED = {
    other_mac: "b",
    other_device: "",
    back_by_rule: "b",
    back_by_other_device: "b",
    back_to_other_mac: "b",
}
"""What the node's tables say, and by whose device the SYN leaves; "" where the hook there drops it."""


@families
@pytest.mark.parametrize("routed", ELSEWHERE_ROUTED)
def test_the_stack_sees_first_packets_that_are_routed_elsewhere(
    node: NodeUnderTest, wire: Wire, family: int, routed: Callable[[int], None]
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        leaving = Leaving(owned)
        wire.listen("b", 80, family)
        routed(family)
        assert not connects(wire.tcp_socket("a", family), (B.address(family), 80), SILENCE)
        by = ELSEWHERE_ROUTED[routed]
        assert leaving.to(by) >= 1 if by else node.drops()


@pytest.mark.parametrize(("table", "filtered"), [("ip", 4), ("ip6", 6)])
def test_chains_of_one_family_leave_the_other_on_the_fast_path(
    node: NodeUnderTest, wire: Wire, table: str, filtered: int
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned, nft("forward", kind=table):
        leaving = Leaving(owned)
        for family, port in ((4, 80), (6, 80)):
            with closing(ConnectionsOfPods(wire, family, B, port=port)) as talk:
                talk.once()
            assert leaving.to("b") == max(family == filtered, FEWEST)


def test_a_host_that_forwards_no_ipv6_forwards_no_first_packet(
    node: NodeUnderTest, wire: Wire
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    wire.listen("b", 80, 6)
    settings = Path("/proc/sys/net/ipv6/conf")
    (settings / "all/forwarding").write_text("0")
    for device in LOCAL.values():
        (settings / device / "forwarding").write_text("1")
    assert not connects(wire.tcp_socket("a", 6), (B.ip6, 80), SILENCE)
    (settings / "all/forwarding").write_text("1")
    assert connects(wire.tcp_socket("a", 6), (B.ip6, 80))


def test_a_packet_at_its_last_hop_goes_no_further(node: NodeUnderTest, wire: Wire) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    listener, client = wire.listen("b", 80), wire.tcp_socket("a")
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 1)
    with suppress(OSError):  # an ICMP error, which says so
        assert not connects(client, (B.ip4, 80), SILENCE)
    assert is_silent(listener)


def test_the_stack_sees_first_packets_with_a_mark(
    node: NodeUnderTest, wire: Wire, tmp_path: Path
) -> None:
    """Another program has marked them for it, after the load."""
    source = tmp_path / "mark.bpf.c"
    source.write_text(MARKING)
    compile_c(source, tmp_path / "mark.bpf.o")
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    with ExitStack() as owned:
        marking = owned.enter_context(Object(tmp_path / "mark.bpf.o", tmp_path))
        marking.load()
        leaving, talk = Leaving(owned), ConnectionsOfPods(wire, 4, B)
        where, kind = node.ifindex[LOCAL["a"]], bpf_syscall.ATTACH_TCX_INGRESS
        program = marking.program_fd("mark")
        with bpf_syscall.link_create_tcx(program, where, kind, is_first=True):
            talk.once()
        assert leaving.to("b") >= 1
        talk.once()
        assert leaving.to("b") == FEWEST


@families
@pytest.mark.parametrize("there", THERE)
def test_packets_have_the_macs_of_the_gateway_and_the_pod(
    node: NodeUnderTest, wire: Wire, there: str, family: int
) -> None:
    host, port = THERE[there]
    node.load(node.policy().allow("a", "b", tcp_port(port)), services=web(B))
    with ExitStack() as owned:
        taps = {pod: tap(wire, pod, owned) for pod in LOCAL}
        ConnectionsOfPods(wire, family, host, port).once()
        for pod, made in taps.items():
            own = mac_bytes(HOSTS[pod].mac), mac_bytes(link_address(LOCAL[pod]))
            assert {(whole[:6], whole[6:12]) for whole in came_in(made)} == {own}


@families
def test_datagrams_and_their_answers_bypass_the_stack(
    node: NodeUnderTest, wire: Wire, family: int
) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    kind = socket.AF_INET if family == 4 else socket.AF_INET6
    ends = []
    with ExitStack() as owned:
        leaving = Leaving(owned)
        for pod, end in (("a", A), ("b", B)):
            made = wire.within(pod, lambda: socket.socket(kind, socket.SOCK_DGRAM))
            assert isinstance(made, socket.socket)
            ends.append(owned.enter_context(made))
            made.settimeout(WAITS)
            made.bind((end.address(family), 5000))
        client, server = ends
        client.sendto(b"question", (B.address(family), 5000))
        question, sender = server.recvfrom(16)
        server.sendto(b"answer", sender)
        assert (question, client.recv(16)) == (b"question", b"answer")
        assert {pod: leaving.to(pod) for pod in LOCAL} == {"a": FEWEST, "b": FEWEST}


def test_an_unload_takes_the_program_away_before_our_hook_in_netfilter(
    node: NodeUnderTest, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    assert FIRST.program(node.pins)
    seen = []
    keep_only = prerouting.keep_only

    def noting(pins: Pins, tag: str) -> None:
        seen.append(FIRST.program(pins))
        keep_only(pins, tag)

    monkeypatch.setattr(prerouting, "keep_only", noting)
    node.unload()
    assert seen == [0]


def test_a_load_that_fails_leaves_first_packets_where_they_were(
    node: NodeUnderTest, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = node.policy().allow("a", "b", tcp_port(80))
    for forward, failing in (("redirect", "stack"), ("stack", "redirect")):
        node.load(policy, forward=forward)
        before = FIRST.program(node.pins)
        with monkeypatch.context() as patch:
            patch.setattr(switch, "store", failed)
            with pytest.raises(OSError, match="no switch"):
                node.load(policy, forward=failing)
        assert FIRST.program(node.pins) == before
        assert bool(before) == (forward == "redirect")


def failed(*_: object) -> None:
    raise OSError("no switch")


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
    with nft("egress", device=LOCAL["b"], kind="netdev"):
        yield


@contextmanager
def inet_chain(node: NodeUnderTest, program: int) -> Iterator[None]:
    with nft("ingress", device=LOCAL["b"]):
        yield


@pytest.mark.parametrize("other", [tcx_link, tc_filter, netdev_chain, inet_chain])
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
        leaving, talk = Leaving(owned), ConnectionsOfPods(wire, 4, B)
        with other(node, passing):
            node.load(policy, mode=mode)
            assert not FIRST.program(node.pins)
            found = node.status()
            assert found is not None and not found.first_packets
            talk.once()
            assert (leaving.to("b"), leaving.to("a")) == (1, 1)
        node.load(policy, mode=mode)
        talk.once()
        assert (leaving.to("b"), leaving.to("a")) == (FEWEST, FEWEST)
    (text,) = node.notes
    assert text.endswith("so first packets take the stack path")
    assert ("nftables" in text) == (other in (netdev_chain, inet_chain))
    assert "nftables" in text or LOCAL["b"] in text


def test_on_the_stack_path_first_packets_take_it(node: NodeUnderTest, wire: Wire) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)), forward="stack")
    assert not FIRST.program(node.pins)
    with ExitStack() as owned:
        leaving = Leaving(owned)
        ConnectionsOfPods(wire, 4, B).once()
        assert leaving.to("b") > 1
