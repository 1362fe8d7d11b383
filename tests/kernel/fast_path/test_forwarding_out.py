# SPDX-License-Identifier: Apache-2.0
"""The fast path between a pod and hosts beyond its node.

Real packets, and counts of packets that the stack forwarded.
"""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.snat.snat import Masquerade
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.fast_path import TARGET, TCP, UDP, Datagrams, N
from tests.kernel.support.node_under_test import ip
from tests.kernel.support.objects import compile_c
from tests.kernel.support.packets import Host, mac_bytes
from tests.kernel.support.service_yaml import (
    VIP,
    slices,
    value,
    web,
)
from tests.kernel.support.service_yaml import service as service_of
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
PORT = 80
A_WHILE = 2.5
"""Seconds in which the way is looked at again, whatever the kernel's tick."""

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress, Egress]
  ingress: [{{}}]
  egress: {egress}
"""
COUNTING = """\
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} found SEC(".maps");
SEC("tc") int count(struct __sk_buff *skb)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&found, &zero);

	if (n && skb->mark == 0x70635223) /* PC_ROUTED_MARK */
		__sync_fetch_and_add(n, 1);
	return -1;
}
char count_license[] SEC("license") = "GPL";
"""


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that allows pods every connection, in both directions."""
    return compiled(tmp_path_factory.mktemp("opened"), POLICY.format(egress="[{}]"))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that denies pods every connection."""
    return compiled(tmp_path_factory.mktemp("closed"), POLICY.format(egress="[]"))


@pytest.mark.waits
@families
def test_established_connections_bypass_the_stack_in_both_directions(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.routed(3) >= 2, "the first ones go by the stack, which says how"
    assert talk.routed() == 0
    lab.load("a", opened, None)
    assert talk.routed() <= 2, "only the packets that are decided again take the stack path"
    lab.load("a", opened, None, forward="stack")
    assert talk.routed() == 2 * N


@families
def test_a_packet_that_the_host_routes_by_mark_takes_the_stack_path(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    """Policy routing uses such marks. A mark that no routing rule reads has no effect."""
    filters = "iptables" if family == 4 else "ip6tables"
    marked = ("-t", "mangle", "-A", "PREROUTING", "-i", lab.device("pod-a"), "-j", "MARK")
    lab.run("a", filters, *marked, "--set-mark", "0x10")
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(3) and talk.routed() == 0
    rule = ("rule", "add", "fwmark", "0x10/0x10", "lookup", "main")
    lab.run("a", "ip", f"-{family}", *rule)
    lab.load("a", opened, None)
    another = Datagrams(lab, family, "client2")
    assert another.asks(3) and another.routed() == 2 * N
    assert lab.notes == []


@pytest.mark.waits
def test_a_routing_rule_by_type_of_service_puts_all_packets_on_the_stack_path(
    lab: TwoNodes, opened: Path
) -> None:
    lab.run("a", "ip", "rule", "add", "tos", "0x10", "lookup", "main")
    lab.load("a", opened, None)
    assert len(lab.notes) == 1 and "matches the type of service" in lab.notes[0]
    talk = Datagrams(lab, 4, "client1")
    assert talk.asks(3) and talk.routed() == 2 * N


@pytest.mark.waits
@families
def test_an_external_clients_connection_to_a_pod_bypasses_the_stack(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    listener = lab.server("pod-a", family, TCP, TARGET)
    there = lab.connect("client1", family, address("pod-a", family), TARGET)
    assert there is not None
    here = lab.accept(listener)
    for _ in range(3):
        there.send(b"x")
        here.send(here.recv(10))
        assert there.recv(10) == b"x"
    before = lab.routed("a", family)
    data = bytes(range(256)) * 4000
    for one, other in ((here, there), (there, here)):
        sent = got = 0
        while got < len(data):
            sent += one.send(data[sent : sent + 20000]) if sent < len(data) else 0
            piece = other.recv(65536)
            assert piece == data[got : got + len(piece)]
            got += len(piece)
    assert lab.routed("a", family) - before == 0
    assert lab.bad_checksums() == 0


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_fast_path_frames_equal_those_of_the_stack(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    wire = lab.capture("router", "to-a")
    assert talk.asks(N)
    heads = set[bytes]()
    while True:
        try:
            frame = wire.recv(2000)
        except BlockingIOError:
            break
        hop_limit = frame[22:23] if family == 4 else frame[21:22]
        ether = struct.unpack_from("!H", frame, 12)[0]
        if ether == (0x0800 if family == 4 else 0x86DD) and frame.endswith(b"question"):
            heads.add(frame[:14] + hop_limit)
    assert len(heads) == 1, "as the first one, which the stack has forwarded"
    assert heads.pop()[-1] == 63


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_the_fast_path_follows_a_changed_neighbour(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(3)
    other = "02:00:00:00:00:77"
    gateway = address("a", family)[:-1] + "1"
    lab.at["router"].within(lambda: ip("link", "set", "to-a", "address", other))
    lab.at["a"].within(
        lambda: ip("neigh", "replace", gateway, "lladdr", other, "dev", UPLINK, "nud", "reachable")
    )
    talk.asks(patience=SILENCE)
    wire = lab.capture("router", "to-a")
    time.sleep(A_WHILE)
    assert talk.routed() == 0
    frames = list[bytes]()
    while True:
        try:
            frames.append(wire.recv(2000))
        except BlockingIOError:
            break
    asked = [frame for frame in frames if frame.endswith(b"question")]
    assert asked
    assert {frame[:6] for frame in asked} == {mac_bytes(other)}


@families
def test_the_fast_path_follows_a_removed_route(lab: TwoNodes, opened: Path, family: int) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(3)
    to = address("client1", family) + ("/32" if family == 4 else "/128")
    lab.at["a"].within(lambda: ip(f"-{family}", "route", "add", "unreachable", to))
    time.sleep(A_WHILE)
    assert not talk.asks(patience=SILENCE)
    lab.at["a"].within(lambda: ip(f"-{family}", "route", "del", "unreachable", to))
    assert talk.asks(3) or talk.asks(3), "an error about earlier packets is reported once"
    assert talk.routed() == 0


@families
def test_a_change_of_policy_ends_the_fast_path_at_once(
    lab: TwoNodes, opened: Path, closed: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(N)
    lab.load("a", closed, None)
    assert not talk.asks(patience=SILENCE)
    lab.load("a", opened, None)
    assert talk.asks(3)


@families
@pytest.mark.parametrize("kind", [TCP, UDP])
def test_a_service_with_a_remote_endpoint_takes_the_fast_path(
    lab: TwoNodes, opened: Path, family: int, kind: int
) -> None:
    protocol = "TCP" if kind == TCP else "UDP"
    found = [service_of(protocol=protocol)]
    for each in slices([], protocol=protocol):
        of = int(each.raw["addressType"][-1])
        endpoints = [
            {"addresses": [address("pod-b", of)], "conditions": {"ready": True}, "nodeName": "b"}
        ]
        found.append(value(each.raw | {"endpoints": endpoints}))
    lab.load("a", opened, found)
    lab.load("b", opened, found)
    to = VIP.address(family)
    if kind == UDP:
        talk = Datagrams(lab, family, "pod-b", to, PORT)
        assert talk.asks(3)
        assert talk.routed() == 0
        assert talk.seen == address("pod-a", family)
        time.sleep(A_WHILE)
        assert talk.routed() <= 2, "also after another lookup of the route"
        return
    listener = lab.server("pod-b", family, TCP, TARGET)
    there = lab.connect("pod-a", family, to, PORT)
    assert there is not None
    here = lab.accept(listener)
    for _ in range(3):
        there.send(b"x")
        here.send(here.recv(10))
        assert there.recv(10) == b"x"
    before = {node: lab.routed(node, family) for node in "ab"}
    for _ in range(N):
        there.send(b"question")
        here.send(here.recv(100))
        assert there.recv(100) == b"question"
    assert {node: lab.routed(node, family) - before[node] for node in "ab"} == {"a": 0, "b": 0}
    assert lab.bad_checksums() == 0
    assert not lab.drops()


@pytest.mark.waits
@families
def test_snat_works_beside_the_fast_path(lab: TwoNodes, opened: Path, family: int) -> None:
    """Replies take the stack path, so requests do too."""
    lab.load("a", opened, None, masquerade=Masquerade(range(50000, 51000)))
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(N)
    assert talk.seen == address("a", family)
    assert talk.routed() == 2 * N


@families
@pytest.mark.both_families
def test_a_load_with_snat_translates_the_next_packets_of_known_connections(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(N)
    assert talk.seen == address("pod-a", family)
    lab.load("a", opened, None, masquerade=Masquerade(range(50000, 51000)))
    for _ in range(3):
        assert talk.asks()
        assert talk.seen == address("a", family)


@pytest.mark.waits
@families
def test_known_connections_leave_the_fast_path_after_a_load_with_snat(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    """The uplink's hook learns no path from them. Exception: those that it does not translate."""
    for node in "ab":
        lab.load(node, opened, None)
    leaving, between = (Datagrams(lab, family, server) for server in ("client1", "pod-b"))
    server = lab.server("pod-a", family, UDP, TARGET + 1)
    client = lab.open_socket("client1", family, UDP)
    client.connect((address("pod-a", family), TARGET + 1))

    def routed_of_clients() -> int:
        before = lab.routed("a", family)
        for _ in range(N):
            client.send(b"question")
            data, peer = server.recvfrom(100)
            server.sendto(data, peer)
            assert client.recv(100) == b"question"
        return lab.routed("a", family) - before

    assert leaving.asks(3) and between.asks(3) and routed_of_clients() < N
    lab.load("a", opened, None, masquerade=Masquerade(range(50000, 51000)))
    assert leaving.asks(3) and between.asks(3) and routed_of_clients() > 0, "decided again"
    time.sleep(A_WHILE)
    assert leaving.routed() == 2 * N
    assert routed_of_clients() >= 2 * N - 1, "all but the client's first packet"
    assert between.routed() == 0


@contextmanager
def counted(lab: TwoNodes, folder: Path, is_first: bool) -> Iterator[Callable[[], int]]:
    """How many packets have the mark before our hook at node a's uplink, or after it."""
    source, built = folder / "marked.bpf.c", folder / "marked.bpf.o"
    source.write_text(COUNTING)
    compile_c(source, built)
    with Object(built, folder) as counting, ExitStack() as owned:
        counting.load()
        program, found = counting.program_fd("count"), counting.map_fd("found")

        def attach() -> None:
            at, kind = socket.if_nametoindex(UPLINK), bpf_syscall.ATTACH_TCX_EGRESS
            link = bpf_syscall.link_create_tcx(program, at, kind, is_first=is_first)
            owned.enter_context(link)

        lab.at["a"].within(attach)
        yield lambda: int.from_bytes(bpf_syscall.map_lookup(found, bytes(4), 4) or b"", "little")


@pytest.mark.waits
@families
@pytest.mark.parametrize("there", ["client1", "a Service"])
def test_packets_of_the_fast_path_come_to_the_uplinks_hook_with_a_mark_that_it_clears(
    lab: TwoNodes, opened: Path, tmp_path: Path, there: str, family: int
) -> None:
    """Without it are a packet of each connection after a load, and after each look at the path."""
    endpoint = Host(lab.mac("pod-b"), address("pod-b", 4), address("pod-b", 6))
    serve = web(endpoint, protocol="UDP")
    lab.load("a", opened, serve)
    lab.load("b", opened, None)
    if there == "client1":
        talk = Datagrams(lab, family, there)
    else:
        talk = Datagrams(lab, family, "pod-b", VIP.address(family), PORT)
    assert talk.asks(3)
    with counted(lab, tmp_path, True) as marked, counted(lab, tmp_path, False) as left:
        assert talk.asks(N)
        assert 0.8 * N < marked() <= N
        assert left() == 0
        lab.load("a", opened, serve)
        before = marked()
        assert talk.asks()
        assert marked() == before, "decided again"


def drop_invalid(lab: TwoNodes) -> None:
    """As kube-proxy and many firewalls, drops packets that the host's conntrack calls invalid."""
    for command in ("iptables", "ip6tables"):
        rule = ("-I", "FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
        lab.run("a", command, *rule)


@families
@pytest.mark.parametrize("masquerade", [None, Masquerade(range(50000, 51000))])
def test_a_firewall_that_drops_invalid_packets_drops_none_of_a_connection(
    lab: TwoNodes, opened: Path, family: int, masquerade: Masquerade | None
) -> None:
    drop_invalid(lab)
    lab.load("a", opened, None, masquerade=masquerade)
    listener = lab.server("client1", family, TCP, TARGET)
    there = lab.connect("pod-a", family, address("client1", family), TARGET)
    assert there is not None
    here = lab.accept(listener)
    data = bytes(range(256)) * 1200
    for one, other in ((there, here), (here, there), (there, here)):
        sent = got = 0
        while got < len(data):
            sent += one.send(data[sent : sent + 20000]) if sent < len(data) else 0
            got += len(other.recv(65536))


@pytest.mark.both_families
@pytest.mark.waits
@families
def test_packets_by_a_route_with_a_smaller_mtu_take_the_stack_path(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    to, via = address("client1", family), address("a", family)[:-1] + "1"
    size = "/32" if family == 4 else "/128"
    route = (f"-{family}", "route", "replace", to + size, "via", via, "mtu", "1300")
    lab.at["a"].within(lambda: ip(*route))
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.routed() == 2 * N
    lab.at["a"].within(lambda: ip(f"-{family}", "route", "del", to + size))
    lab.load("a", opened, None)
    assert talk.asks(3)
    assert talk.routed() == 0


@pytest.mark.waits
def test_an_uplink_with_a_very_small_mtu_is_not_used_by_the_fast_path(
    lab: TwoNodes, opened: Path
) -> None:
    """The hooks check no packet of up to 576 bytes."""
    for mtu, routed in ((575, 2 * N), (576, 0)):
        lab.at["a"].network.change(UPLINK, mtu=mtu)
        lab.load("a", opened, None)
        talk = Datagrams(lab, 4, "client1")
        assert talk.asks(3)
        assert talk.routed() == routed


@pytest.mark.waits
@families
def test_a_locked_mtu_is_respected_as_routes_change(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(3)
    to, via = address("client1", family), address("a", family)[:-1] + "1"
    size = "/32" if family == 4 else "/128"
    route = (f"-{family}", "route", "replace", to + size, "via", via, "mtu", "lock", "1300")
    lab.at["a"].within(lambda: ip(*route))
    time.sleep(A_WHILE)
    assert talk.routed() == 2 * N


@families
def test_a_return_path_by_a_device_that_is_no_uplink_keeps_the_stack_path(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    """The return path is by a device that is no uplink. A packet by the uplink is forged."""
    lab.load("a", opened, None)
    talk = Datagrams(lab, family, "client1")
    assert talk.asks(3)
    to = address("client1", family) + ("/32" if family == 4 else "/128")

    def elsewhere() -> None:
        ip("link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
        ip("link", "set", "lan0", "up")
        ip("link", "set", "lan1", "up")
        ip(f"-{family}", "route", "add", to, "dev", "lan0")

    before = lab.routed("a", family)
    lab.at["a"].within(elsewhere)
    time.sleep(A_WHILE)
    talk.client.send(b"question")
    eventually(lambda: lab.routed("a", family) > before, "the stack is asked again")
    talk.server.sendto(b"forged", talk.client.getsockname()[:2])
    if family == 4:  # whose reverse path filter is on
        assert is_silent(talk.client)
