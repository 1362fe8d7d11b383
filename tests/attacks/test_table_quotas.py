# SPDX-License-Identifier: Apache-2.0
"""One pod opens as many connections as it can. Connections of other pods continue.

Pod a attacks. Pod b is the target. Pod c talks to an external client, or to b. The hooks run on
frames of a loaded node, as fast as the kernel takes them.
"""

import os
import struct
from collections.abc import Iterator

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.attacks.table_quotas import (
    full_quotas,
)
from tests.kernel.support.fragment_frames import (
    first,
    later,
)
from tests.kernel.support.many_flows import (
    NODE_PORT,
    node_port,
)
from tests.kernel.support.network import network
from tests.kernel.support.node_under_test import (
    GROUP,
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    Host,
    Payload,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
DEVICES = {**LOCAL, "c": "pcc"}
PODS = {"a": A, "b": B, "c": C}
FLOOD = 66000
"""Connections of the attacker: more than half of the entries that either family has."""
N_NEW = 32768
"""PC_NEW_ENTRIES of runtime/datapath/ct_map.h."""
FRAGMENTS = 16384
"""PC_FRAG_ENTRIES of runtime/datapath/fragments.h."""
N_KEPT = {4: 131072, 6: 65536}
_PORTS_AT = {4: 34, 6: 54}
_DROP = 2


class Wires:
    """The devices of a loaded node, into which frames are put."""

    def __init__(self, node: NodeUnderTest, family: int) -> None:
        self.node, self.family = node, family
        self._fds = {
            hook: bpf_syscall.obj_get(node.pins.hook(hook)).number
            for hook in ("pc_from_pod", "pc_from_uplink")
        }
        self._runs = {hook: bpf_syscall.TestRun(fd) for hook, fd in self._fds.items()}

    def sends(self, sender: str, made: bytes) -> bool:
        """Whether a pod's frame passes, or one of "world"."""
        device = self.node.ifindex[UPLINK if sender == "world" else DEVICES[sender]]
        hook = "pc_from_uplink" if sender == "world" else "pc_from_pod"
        return self._runs[hook](made, device, device) != _DROP

    def frame(self, src: Host, dst: Host, payload: Payload) -> bytes:
        return frame(src, dst, payload, family=self.family)

    def opens(self, src: str, dst: str, port: int) -> bool:
        """A handshake of TCP between pods."""
        there, back = (PODS[src], PODS[dst]), (PODS[dst], PODS[src])
        return (
            self.sends(src, self.frame(*there, tcp(port, 80, SYN)))
            and self.sends(dst, self.frame(*back, tcp(80, port, SYN | ACK)))
            and self.sends(src, self.frame(*there, tcp(port, 80, ACK)))
        )

    def answers(self, dst: str, src: str, port: int) -> bool:
        """The server may open nothing: only an entry lets its segment pass."""
        return self.sends(dst, self.frame(PODS[dst], PODS[src], tcp(80, port, ACK)))

    def flood(self, src: str, dst: str, n: int, *, two_way: bool) -> int:
        """UDP from as many ports; two-way: question, answer, and question again. How many passed."""
        there = bytearray(self.frame(PODS[src], PODS[dst], udp(1, 1)))
        back = bytearray(self.frame(PODS[dst], PODS[src], udp(1, 1)))
        passed = 0
        for at in range(n):
            ports = 9000 + at % 50000, 100 + at // 50000
            struct.pack_into("!HH", there, _PORTS_AT[self.family], *ports)
            sent = bytes(there)
            is_through = self.sends(src, sent)
            if two_way:
                struct.pack_into("!HH", back, _PORTS_AT[self.family], *ports[::-1])
                is_through = is_through and self.sends(dst, bytes(back)) and self.sends(src, sent)
            passed += is_through
        return passed

    def flood_from_outside(self, n: int) -> int:
        """First packets of TCP to the node port, each from an address of its own."""
        made = bytearray(self.frame(WORLD, NODE, tcp(1024, NODE_PORT, SYN)))
        at = {4: 28, 6: 36}[self.family]
        passed = 0
        for number in range(n):
            struct.pack_into("!H", made, at, number & 0xFFFF)
            struct.pack_into("!H", made, _PORTS_AT[self.family], 1024 + (number >> 16))
            passed += self.sends("world", bytes(made))
        return passed

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)

    def used(self, name: str) -> int:
        """Entries of a table."""
        with self.node.shared_map(name.format(self.family)) as fd:
            info = bpf_syscall.map_info(fd)
            return sum(count for _, _, count in bpf_syscall.map_items_batch(fd, info))


ALLOWED = (("a", "b"), ("c", "b"))


def load(node: NodeUnderTest, *allowed: tuple[str, str]) -> None:
    """Three pods on the node, and a node port of which b is the endpoint."""
    policy = node.policy()
    for src, dst in allowed:
        policy.allow(src, dst, ANY)
    entries = [endpoint(name, host, DEVICES[name]) for name, host in PODS.items()]
    node.load(policy, entries=entries, services=node_port(), uplinks=[UPLINK])


@pytest.fixture
def wires(node: NodeUnderTest, request: pytest.FixtureRequest) -> Iterator[Wires]:
    """Pods a and c may reach b, which may reach no pod."""
    with network() as own:
        own.add("pcc", "veth", group=GROUP, peer={"ifname": "pcc.p"})
        for device in ("pcc", "pcc.p"):
            own.up(device)
        node.ifindex["pcc"] = own.index("pcc")
    load(node, *ALLOWED)
    made = Wires(node, request.node.callspec.params["family"])
    yield made
    made.close()


def is_silent_for(node: NodeUnderTest, family: int, seconds: int) -> None:
    """Let time pass: every connection was silent for so long."""
    with node.shared_map("pc_clock") as fd:
        (rate,) = struct.unpack_from("=I", bpf_syscall.map_lookup(fd, bytes(4), 4) or b"")
    ticks = seconds * rate
    field = node.layout("pc_ct").fields["expires"]
    at, size = field.offset, field.size
    for name in (f"pc_ct{family}", f"pc_ct{family}_new"):
        with node.shared_map(name) as fd:
            info = bpf_syscall.map_info(fd)
            for keys, values, n in list(bpf_syscall.map_items_batch(fd, info)):
                changed = bytearray(values)
                for each in range(at, n * info.value_size, info.value_size):
                    expires = int.from_bytes(changed[each : each + size], "little") - ticks
                    changed[each : each + size] = struct.pack("=Q", expires)
                bpf_syscall.map_update_batch(fd, keys, bytes(changed), n)


@families
def test_established_connections_of_one_pod_leave_room_for_those_of_other_pods(
    wires: Wires, family: int
) -> None:
    assert wires.flood("a", "b", FLOOD, two_way=True) == FLOOD
    assert wires.used("pc_ct{}") <= N_KEPT[family] // 4
    ports = range(2000, 2200)
    assert all(wires.opens("c", "b", port) for port in ports)
    assert wires.flood("a", "b", FLOOD, two_way=False) == FLOOD
    assert all(wires.answers("b", "c", port) for port in ports)
    found = full_quotas(wires.node)
    assert found["shop/a", "established connection not kept"] > 0
    assert found["shop/a", "new connection gave its place"] > 0
    assert not any(endpoint == "shop/c" for endpoint, _ in found)


@families
def test_a_flood_of_first_packets_ends_no_handshake_of_another_pod(
    wires: Wires, family: int
) -> None:
    ports = range(2000, 2100)
    for port in ports:
        assert wires.sends("c", wires.frame(C, B, tcp(port, 80, SYN)))
    assert wires.flood("a", "b", FLOOD, two_way=False) == FLOOD
    assert wires.used("pc_ct{}_new") <= N_NEW // 4 + len(ports)
    for port in ports:
        assert wires.sends("b", wires.frame(B, C, tcp(80, port, SYN | ACK)))
        assert wires.sends("c", wires.frame(C, B, tcp(port, 80, ACK)))


@families
def test_a_flood_is_charged_to_its_sender_and_not_to_the_server(wires: Wires, family: int) -> None:
    load(wires.node, *ALLOWED, ("b", "c"))
    assert wires.flood("a", "b", FLOOD, two_way=True) == FLOOD
    ports = range(2000, 2200)
    assert all(wires.opens("b", "c", port) for port in ports)
    assert wires.flood("a", "b", FLOOD, two_way=False) == FLOOD
    load(wires.node, ("b", "c"))
    assert all(wires.answers("c", "b", port) for port in ports)
    assert not any(endpoint == "shop/b" for endpoint, _ in full_quotas(wires.node))


@families
def test_a_flood_from_an_external_client_ends_no_handshake_of_a_pod(
    wires: Wires, family: int
) -> None:
    ports = range(2000, 2100)
    for port in ports:
        assert wires.sends("c", wires.frame(C, B, tcp(port, 80, SYN)))
    load(wires.node, *ALLOWED, ("world", "b"))
    flooded = wires.flood_from_outside(FLOOD)
    assert flooded == FLOOD
    assert wires.used("pc_ct{}_new") <= N_NEW // 2 + len(ports)
    for port in ports:
        assert wires.sends("b", wires.frame(B, C, tcp(80, port, SYN | ACK)))
    assert {endpoint for endpoint, _ in full_quotas(wires.node)} == {"external clients"}


@families
def test_first_fragments_of_external_clients_leave_room_for_those_of_pods(
    wires: Wires, family: int
) -> None:
    load(wires.node, *ALLOWED, ("world", "b"))
    idents = range(1, 100)
    for ident in idents:
        assert wires.sends("c", first(C, B, family, ident))
    sent = (wires.node.sent_to("b", first(WORLD, B, family, ident)) for ident in range(FRAGMENTS))
    assert all(sent)
    assert wires.used("pc_frag{}") <= FRAGMENTS // 2 + len(idents)
    for ident in idents:
        assert wires.sends("c", later(C, B, family, ident))


@families
def test_a_full_quota_ends_the_pods_own_idle_connections_first(wires: Wires, family: int) -> None:
    """With a full quota, a sixteenth of the idle time is enough: 11 seconds for UDP."""
    kept = N_KEPT[family] // 4
    assert wires.flood("a", "b", FLOOD, two_way=True) == FLOOD
    full = wires.used("pc_ct{}")
    assert full > kept * 0.9
    is_silent_for(wires.node, family, 12)
    ports = range(2000, 2200)
    assert all(wires.opens("a", "b", port) for port in ports)
    assert wires.flood("a", "b", N_NEW, two_way=False) == N_NEW
    assert all(wires.answers("b", "a", port) for port in ports)
    assert wires.used("pc_ct{}") <= kept
    assert full_quotas(wires.node)["shop/a", "idle connection gave its place"] > 0


@families
def test_first_fragments_of_one_pod_leave_room_for_those_of_other_pods(
    wires: Wires, family: int
) -> None:
    idents = range(1, 100)
    for ident in idents:
        assert wires.sends("c", first(C, B, family, ident))
    flood = FLOOD // 2
    assert sum(wires.sends("a", first(A, B, family, ident)) for ident in range(flood)) == flood
    for ident in idents:
        assert wires.sends("c", later(C, B, family, ident))
    assert full_quotas(wires.node)["shop/a", "datagram in fragments gave its place"] > 0
