# SPDX-License-Identifier: Apache-2.0
"""The fast path between an external client of a Service and an endpoint, on the endpoint's node.

Real packets, and counts of packets that the stack of that node forwarded.
"""

import time
from pathlib import Path

import pytest

from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.arrival import SILENCE
from tests.kernel.support.external_paths import CASES, Case, Talk, lab, loaded
from tests.kernel.support.external_wire import (
    BULK,
    TARGET,
    TCP,
    accepted,
    bundle,
    exchange,
    families,
    frames_of,
    services,
    to_node_port,
)
from tests.kernel.support.two_nodes import NODES, UPLINK, TwoNodes, address

__all__ = ["bundle", "lab"]

pytestmark = pytest.mark.kernel
N = 50
A_WHILE = 2.5
"""Seconds in which the path is looked up again, whatever the kernel's tick."""


FORWARDED = {name: CASES[name] for name in ("by the tunnel both ways", "by another link")}
SOME = {name: CASES[name] for name in ("external IP", "by the tunnel both ways", "by the link")}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
some_cases = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[] if name in SOME else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
"""All of them; `make test` leaves most to `make test-all`."""
own_node = pytest.mark.parametrize("case", [CASES["node port"]], ids=["node port"])


@cases
@families
def test_known_datagrams_bypass_the_stack_in_both_directions(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    assert talk.routed(4) >= 2, "the first packets go by the stack"
    assert talk.routed(N) == 0
    time.sleep(A_WHILE)
    assert talk.routed(N) == 0, "the path is looked up again"
    assert lab.bad_checksums() == 0 and not lab.drops()


@some_cases
@families
def test_a_stream_bypasses_the_stack_in_both_directions(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    listening = lab.server(case.endpoint, family, TCP, TARGET)
    client = lab.connect("client1", family, *case.target(family))
    assert client
    server, seen = accepted(listening)
    assert seen == address("client1", family)
    with client, server:
        for size in (10, 10, 10, 20_000):  # the last one finds the tunnel's MTU
            exchange(client, server, size)
        before = lab.routed(case.node, family)
        exchange(client, server, BULK)
        assert lab.routed(case.node, family) == before
    assert lab.bad_checksums() == 0 and not lab.drops()


@some_cases
@families
def test_only_the_first_packet_of_each_direction_takes_the_stack_path(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    listening = lab.server(case.endpoint, family, TCP, TARGET)
    before = lab.routed(case.node, family)
    client = lab.connect("client1", family, *case.target(family))
    assert client
    server, _ = accepted(listening)
    with client, server:
        exchange(client, server, 10)
    assert lab.routed(case.node, family) - before == 2, "SYN and SYN-ACK"


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED.keys())
@families
def test_a_forwarded_packet_comes_in_once(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    """A packet on the stack path comes in a second time, by the uplink that leads to the client."""
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    wire = lab.capture(case.node, UPLINK)
    talk.ask()
    assert to_node_port(frames_of(wire), family) == 1
    talk.ask(4)
    frames_of(wire)
    talk.ask(N)
    assert to_node_port(frames_of(wire), family) == 0


@own_node
@families
def test_with_forwarding_by_the_stack_every_packet_takes_it(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    lab.load("a", bundle, services("pod-a"), forward="stack")
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 2 * N


@own_node
@families
def test_a_load_keeps_connections_on_the_fast_path(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    talk.ask(4)
    loaded(lab, case, bundle)
    assert talk.routed(N) <= 2, "only the packets that are decided again take the stack path"


@own_node
@families
def test_with_snat_of_pods_it_is_the_same(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle, masquerade=Masquerade(range(50000, 51000)))
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 0
    time.sleep(A_WHILE)
    assert talk.routed(N) == 0, "also after another lookup of the route"


@pytest.mark.parametrize("case", SOME.values(), ids=SOME.keys())
@families
def test_no_endpoint_no_packets(lab: TwoNodes, case: Case, bundle: Path, family: int) -> None:
    """On the fast path, too, a removed endpoint gets nothing, and its replies do not leave."""
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    talk.ask(N)
    for node in NODES:
        lab.serve(node, services())
    talk.client.settimeout(SILENCE)
    talk.server.settimeout(SILENCE)
    talk.client.send(b"late")
    with pytest.raises(TimeoutError):
        talk.server.recv(100)
    talk.server.sendto(b"late", (talk.peer, talk.client.getsockname()[1]))
    with pytest.raises((TimeoutError, ConnectionRefusedError)):
        talk.client.recv(100)


@own_node
@families
@pytest.mark.parametrize("size", [10, 4000], ids=["plain", "fragments"])
def test_replies_by_another_uplink_put_both_directions_on_the_stack_path(
    lab: TwoNodes, case: Case, bundle: Path, family: int, size: int
) -> None:
    """The host's conntrack sees both directions, or none. The first reply by it is of that size."""
    lab.at["a"].network.add_veth("up1", "to-a1", lab.at["router"].fd)
    lab.at["a"].set_up("up1")
    lab.at["router"].set_up("to-a1")
    lab.check_no_paths("a")
    lab.uplinks = (UPLINK, "up1")
    lab.load("a", bundle, services("pod-a"))
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 0
    gateway = address("a", family)[:-1] + "1"
    mac = lab.at["router"].network.mac("to-a1")
    network = lab.at["a"].network
    network.neighbour(gateway, mac, "up1")
    whole = 32 if family == 4 else 128
    network.route(f"{gateway}/{whole}", device="up1", command="replace")
    network.route(f"{talk.peer}/{whole}", via=gateway, device="up1", command="replace")
    time.sleep(A_WHILE)
    talk.ask(reply=bytes(size))
    talk.ask(4)
    assert talk.routed(N) == 2 * N


@pytest.mark.parametrize("case", FORWARDED.values(), ids=FORWARDED.keys())
@families
def test_a_load_without_the_fast_path_at_uplinks_puts_both_directions_on_the_stack_path(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    loaded(lab, case, bundle)
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 0
    lab.run(case.node, "ip", "rule", "add", "tos", "0x10", "lookup", "main")
    loaded(lab, case, bundle)
    talk.ask(4)
    assert talk.routed(N) == 2 * N


@pytest.mark.both_families
@own_node
@families
@pytest.mark.parametrize("legacy", [False, True], ids=["nftables", "legacy"])
def test_where_the_host_translates_packets_that_leave_all_take_the_stack_path(
    lab: TwoNodes, case: Case, bundle: Path, family: int, legacy: bool
) -> None:
    """Its conntrack would forget the connection, and its SNAT take a later reply for a new one."""
    command = ("iptables" if family == 4 else "ip6tables") + ("-legacy" if legacy else "")
    pod = address("pod-a", family)
    lab.run("a", command, "-t", "nat", "-A", "POSTROUTING", "-s", pod, "-j", "MASQUERADE")
    loaded(lab, case, bundle)
    assert [note for note in lab.notes if "NAT rules for packets that leave" in note]
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 2 * N


@own_node
@families
def test_a_chain_without_rules_translates_nothing(
    lab: TwoNodes, case: Case, bundle: Path, family: int
) -> None:
    command = "iptables" if family == 4 else "ip6tables"
    other = ("-t", "nat", "-A", "PREROUTING", "-d", "192.0.2.1" if family == 4 else "2001:db8::1")
    lab.run("a", command, *other, "-j", "ACCEPT")
    lab.run("a", command, "-t", "nat", "-S", "POSTROUTING")
    loaded(lab, case, bundle)
    assert not lab.notes
    talk = Talk(lab, case, family)
    talk.ask(4)
    assert talk.routed(N) == 0
