# SPDX-License-Identifier: Apache-2.0
"""Host policy: every packet at the uplink that goes to the node or comes from it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.runtime import switch
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.state import LoadedHost
from tests.kernel.support.fragments import two_pieces
from tests.kernel.support.host_policy_frames import (
    comes,
    families,
    goes,
    loaded,
    under_host_policy,
)
from tests.kernel.support.node_under_test import (
    DROP,
    NODE,
    UPLINK,
    WORLD,
    A,
    B,
    C,
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.packets import (
    ACK,
    DSTOPTS,
    GRE,
    RST,
    SYN,
    TCP,
    Host,
    Payload,
    arp,
    echo,
    echo_reply,
    extension,
    frame,
    icmp,
    icmp6,
    inner,
    neighbour,
    raw,
    sctp,
    tcp,
    udp,
    unreachable,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
    service,
    slices,
)
from tests.kernel.support.table_policy import (
    ANY,
    PING4,
    PING6,
    sctp_port,
    tcp_port,
    udp_port,
)
from tests.kernel.support.ticks import ticks

pytestmark = pytest.mark.kernel
SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "node-status-v1.schema.json"
EXTERNAL = Host(NODE.mac, "192.0.2.80", "2001:db8:80::1")
ROUTER = Host(WORLD.mac, "198.51.100.1", "2001:db8:51::1")


PORTS = [
    pytest.param(
        tcp(4000, 80, SYN), tcp(80, 4000, SYN | ACK), tcp(4000, 81, SYN), tcp_port(80), id="TCP"
    ),
    pytest.param(udp(4000, 80), udp(80, 4000), udp(4000, 81), udp_port(80), id="UDP"),
    pytest.param(sctp(4000, 80, 1), sctp(80, 4000, 2), sctp(4000, 81, 1), sctp_port(80), id="SCTP"),
]  # fmt: skip


@families
@pytest.mark.parametrize(("there", "back", "other", "port"), PORTS)
def test_a_client_reaches_allowed_ports_of_the_node(
    node: NodeUnderTest, family: int, there: Payload, back: Payload, other: Payload, port: Any
) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", port))
    assert not goes(node, back, family), "an answer to nothing"
    for _ in range(3):
        assert comes(node, there, family)
        assert goes(node, back, family)
    assert not comes(node, other, family)
    assert node.drops() == {"policy": 2}


@families
@pytest.mark.parametrize(("there", "back", "other", "port"), PORTS)
def test_the_node_reaches_allowed_ports_of_external_hosts(
    node: NodeUnderTest, family: int, there: Payload, back: Payload, other: Payload, port: Any
) -> None:
    loaded(node, under_host_policy().allow_egress("host", "world", port))
    assert not comes(node, back, family)
    for _ in range(3):
        assert goes(node, there, family)
        assert comes(node, back, family)
    assert not goes(node, other, family)
    assert node.drops() == {"policy": 2}


@families
def test_established_connections_pass_and_ended_ones_do_not(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", tcp_port(80)))
    for flags in (SYN, ACK, ACK):
        assert comes(node, tcp(4000, 80, flags), family)
        assert goes(node, tcp(80, 4000, flags | ACK), family)
    assert len(node.table(f"pc_ct{family}")) == 1, "the entry is in the established table"
    assert goes(node, tcp(80, 4000, RST), family)
    node.expire_connections(family)
    assert not goes(node, tcp(80, 4000, ACK), family)


@families
def test_echo_requests_are_decided_by_policy(node: NodeUnderTest, family: int) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", PING4, PING6))
    assert comes(node, echo(family), family)
    assert goes(node, echo_reply(family), family)
    assert not goes(node, echo(family, 8), family)


@families
def test_failsafe_ports_are_open_whatever_policies_say(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    for port in (22, 179, 2379, 2380, 5473, 6443, 6666, 6667):
        assert comes(node, tcp(4000, port, SYN), family)
        assert goes(node, tcp(port, 4000, SYN | ACK), family)
        assert goes(node, tcp(5000, port, SYN), family) == (port != 22)
    assert comes(node, udp(67, 68), family)
    assert goes(node, udp(5000, 53), family)
    assert comes(node, udp(53, 5000), family), "the answer"
    assert goes(node, udp(68, 67), family)
    assert not comes(node, udp(5001, 53), family)
    assert not comes(node, udp(4000, 22), family)
    assert not comes(node, tcp(4000, 80, SYN), family)
    assert not comes(node, tcp(22, 4000, SYN), family), "it is the destination's port"


@families
def test_a_load_sets_the_failsafe_ports(node: NodeUnderTest, family: int) -> None:
    loaded(node, open_ports={"inbound": "tcp:2222, udp:500", "outbound": "none"})
    assert comes(node, tcp(4000, 2222, SYN), family)
    assert comes(node, udp(500, 500), family)
    assert not comes(node, tcp(4000, 22, SYN), family)
    assert not goes(node, udp(5000, 53), family)
    loaded(node)
    assert comes(node, tcp(4000, 22, SYN), family)
    assert not comes(node, tcp(4001, 2222, SYN), family), "closed again"


@families
def test_a_session_at_a_failsafe_port_survives_the_first_load(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    assert goes(node, tcp(22, 4000, ACK, b"what the shell says"), family)
    assert not goes(node, tcp(22, 4000, SYN), family), "this would begin something"
    assert not goes(node, tcp(80, 4000, ACK), family)


@pytest.mark.parametrize(
    "ports", ["", "22,", "tcp", "icmp:1", "tcp:0", "tcp:65536", "tcp:22;udp:1"]
)
def test_an_invalid_failsafe_port_is_refused(node: NodeUnderTest, ports: str) -> None:
    with pytest.raises(InputError, match="is no port"):
        loaded(node, open_ports={"inbound": ports})
    assert node.status() is None


@pytest.mark.both_families
@families
def test_errors_about_known_connections_pass(node: NodeUnderTest, family: int) -> None:
    policy = under_host_policy().allow_egress("host", "world", tcp_port(443))
    loaded(node, policy.allow_ingress("world", "host", udp_port(500)))
    syn = frame(NODE, WORLD, tcp(1000, 443, SYN), family=family)
    about = unreachable(family, inner(syn))
    assert not comes(node, about, family, ROUTER)
    assert node.goes_out(syn, pod=None)
    assert comes(node, about, family, ROUTER)
    assert not comes(node, unreachable(family, inner(syn)[:-20] + bytes(20)), family, ROUTER)
    asked = frame(WORLD, NODE, udp(5000, 500), family=family)
    assert not goes(node, unreachable(family, inner(asked)), family)
    assert node.comes_in(asked)
    assert goes(node, unreachable(family, inner(asked)), family)


def test_arp_and_neighbour_discovery_pass(node: NodeUnderTest) -> None:
    loaded(node)
    assert node.comes_in(arp(WORLD, target=NODE.ip4))
    assert node.goes_out(arp(NODE, target=WORLD.ip4), pod=None)
    for kind in (135, 136):
        for there in ("ff02::1:ff00:1", NODE.ip6):
            assert node.comes_in(neighbour(WORLD, kind, target=NODE.ip6, daddr=there))
        for there in ("ff02::1:ff00:9", WORLD.ip6):
            assert node.goes_out(neighbour(NODE, kind, target=WORLD.ip6, daddr=there), pod=None)
    routed = neighbour(WORLD, 135, target=NODE.ip6, daddr=NODE.ip6, hop_limit=254)
    assert not node.comes_in(routed)


@families
@pytest.mark.parametrize("first", ["client", "node"])
def test_a_change_of_policy_ends_connections_that_it_denies(
    node: NodeUnderTest, family: int, first: str
) -> None:
    policy = under_host_policy().allow_ingress("world", "host", tcp_port(80))
    loaded(node, policy)
    there, back = tcp(4000, 80, ACK), tcp(80, 4000, ACK)
    assert comes(node, tcp(4000, 80, SYN), family)
    assert goes(node, tcp(80, 4000, SYN | ACK), family)
    both = [lambda: comes(node, there, family), lambda: goes(node, back, family)]
    order = both if first == "client" else both[::-1]
    loaded(node, policy)
    assert [packet() for packet in order] == [True, True]
    loaded(node)
    assert [packet() for packet in order] == [False, False]
    loaded(node, policy)
    assert [packet() for packet in order] == [True, True]


@families
@pytest.mark.parametrize("first", ["server", "node"])
def test_a_change_of_policy_ends_connections_that_the_node_opened(
    node: NodeUnderTest, family: int, first: str
) -> None:
    policy = under_host_policy().allow_egress("host", "world", tcp_port(443))
    loaded(node, policy)
    assert goes(node, tcp(4000, 443, SYN), family)
    assert comes(node, tcp(443, 4000, SYN | ACK), family)
    both = [
        lambda: comes(node, tcp(443, 4000, ACK), family),
        lambda: goes(node, tcp(4000, 443, ACK), family),
    ]
    order = both if first == "server" else both[::-1]
    loaded(node, policy)
    assert [packet() for packet in order] == [True, True]
    loaded(node)
    assert [packet() for packet in order] == [False, False]


@families
def test_forwarded_packets_are_not_decided_by_host_policy(node: NodeUnderTest, family: int) -> None:
    loaded(
        node,
        under_host_policy()
        .allow_egress("a", "world", ANY)
        .allow_ingress("world", "a", tcp_port(80)),
    )
    sent = frame(A, WORLD, udp(5000, 1234), family=family)
    assert node.sent_by("a", sent)
    assert node.goes_out(
        frame(NODE, WORLD, udp(5000, 1234), family=family, saddr=A.address(family))
    )
    back = frame(WORLD, NODE, udp(1234, 5000), family=family, daddr=A.address(family))
    assert node.comes_in(back)
    assert node.sent_to("a", back)
    other = frame(WORLD, NODE, tcp(1, 2, SYN), family=family, daddr=ROUTER.address(family))
    assert node.comes_in(other)
    assert node.drops() == {}


@families
def test_replies_to_packets_behind_the_hosts_snat_pass(node: NodeUnderTest, family: int) -> None:
    """The packet has the node's address, but the node did not open the connection."""
    loaded(node)
    there, back = tcp(5000, 8080, SYN), tcp(8080, 5000, SYN | ACK)
    assert not goes(node, there, family), "the node itself may not"
    assert not comes(node, back, family)
    assert node.goes_out(frame(NODE, WORLD, there, family=family), pod="a")
    assert comes(node, back, family)
    loaded(node)
    assert comes(node, back, family), "what the policy is not about goes on under the next one"


def seconds_left(node: NodeUnderTest, family: int, but: int = 0) -> int:
    """Of the idle time of the one entry, from the kernel's clock of now; takes some away."""
    with node.shared_map("pc_clock") as fd:
        second = int.from_bytes(bpf_syscall.map_lookup(fd, bytes(4), 8) or b"", "little")
    (entry,) = node.connections(family)
    expires = int.from_bytes(entry["expires"], "little")
    left = (expires - ticks() & 0xFFFFFFFF) // second
    if but:
        node.expire_connections(family, at=expires - but * second)
    return left


@families
def test_a_peer_extends_a_forwarded_connection_once_until_the_other_end_sends(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    there, back = frame(NODE, WORLD, udp(5000, 1234), family=family), udp(1234, 5000)
    assert node.goes_out(there, pod="a")
    assert comes(node, back, family)
    for _ in range(2):
        assert node.goes_out(there, pod="a")
        seconds_left(node, family, but=100)
        assert comes(node, back, family)
        assert 170 <= seconds_left(node, family, but=100) <= 180
        for _ in range(3):
            assert comes(node, back, family)
            assert seconds_left(node, family) <= 80
    node.expire_connections(family)
    assert not comes(node, back, family)


@families
def test_a_reset_of_the_peer_shortens_a_forwarded_connection(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node)
    for flags in (SYN, ACK):
        assert node.goes_out(frame(NODE, WORLD, tcp(5000, 80, flags), family=family), pod="a")
        assert comes(node, tcp(80, 5000, flags | ACK), family)
    assert seconds_left(node, family) > 7 * 3600
    for flags in (RST, ACK):
        assert comes(node, tcp(80, 5000, flags), family)
        assert seconds_left(node, family) <= 10


@families
def test_replies_without_ports_are_decided_as_packets_to_the_node(
    node: NodeUnderTest, family: int
) -> None:
    """No socket shows that the node itself would not take them."""
    loaded(node)
    odd = raw(GRE, bytes(8))
    assert node.goes_out(frame(NODE, WORLD, odd, family=family), pod="a")
    assert not comes(node, odd, family)
    assert node.goes_out(frame(NODE, WORLD, echo(family, 7), family=family), pod="a")
    assert comes(node, echo_reply(family, 7), family)
    assert not comes(node, echo(family, 7), family)


pieces = partial(two_pieces, WORLD, NODE, 5000)


@pytest.mark.both_families
@families
def test_fragments_follow_the_first(node: NodeUnderTest, family: int) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", udp_port(500)))

    for frames, passes in ((pieces(500, family, 1), True), (pieces(501, family, 2), False)):
        assert [node.comes_in(each) is not None for each in frames] == [passes, passes]
    assert node.comes_in(pieces(500, family, 3)[1]) is None, "its first was not seen"


@pytest.mark.both_families
@families
def test_packets_that_cannot_be_parsed_are_dropped(node: NodeUnderTest, family: int) -> None:
    loaded(
        node,
        under_host_policy().allow_ingress("world", "host", ANY).allow_egress("host", "world", ANY),
    )
    if family == 4:
        odd = raw(TCP, b"\0\1")
    else:
        body = b""
        for _ in range(20):
            body = extension(DSTOPTS, body)
        odd = raw(DSTOPTS, body)
    assert not comes(node, odd, family)
    assert not goes(node, odd, family)
    assert node.comes_in(frame(WORLD, NODE, odd, family=family, daddr=ROUTER.address(family)))


@families
def test_a_pod_of_the_node_is_decided_as_any_client(node: NodeUnderTest, family: int) -> None:
    policy = (
        under_host_policy().allow_egress("a", "world", ANY).allow_ingress("a", "host", tcp_port(80))
    )
    loaded(node, policy)
    assert node.sent_by("a", frame(A, NODE, tcp(4000, 80, SYN), family=family))
    answer = frame(NODE, A, tcp(80, 4000, SYN | ACK), family=family)
    assert node.sent_by_node_to("a", answer)
    assert node.sent_by("a", frame(A, NODE, tcp(4000, 80, ACK), family=family))
    assert not node.sent_by("a", frame(A, NODE, tcp(4000, 81, SYN), family=family))
    assert node.sent_by("a", frame(A, NODE, tcp(4001, 22, SYN), family=family)), "a failsafe port"
    assert not node.sent_by("b", frame(B, NODE, tcp(4001, 22, SYN), family=family)), (
        "b's own egress"
    )
    loaded(node, under_host_policy().allow_egress("a", "world", ANY))
    assert not node.sent_by("a", frame(A, NODE, tcp(4000, 80, ACK), family=family))


@families
def test_the_node_reaches_its_own_pods_and_is_answered(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    assert node.sent_by_node_to("a", frame(NODE, A, tcp(4000, 8080, SYN), family=family))
    assert node.sent_by("a", frame(A, NODE, tcp(8080, 4000, SYN | ACK), family=family))
    loaded(node)
    assert node.sent_by("a", frame(A, NODE, tcp(8080, 4000, ACK), family=family))


@families
def test_an_external_packet_with_an_address_of_the_node_is_dropped(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", ANY))
    assert node.comes_in(frame(NODE, NODE, tcp(1, 80, SYN), family=family)) is None
    assert node.drops() == {"spoofed ip": 1}


@families
def test_policy_decides_about_the_translated_port_of_a_service_on_the_node(
    node: NodeUnderTest, family: int
) -> None:
    external = service(externalIPs=[EXTERNAL.ip4, EXTERNAL.ip6])
    services = [external, *slices([NODE])]
    loaded(
        node,
        under_host_policy().allow_ingress("world", "host", tcp_port(TARGET)),
        services=services,
    )
    there = frame(WORLD, EXTERNAL, tcp(4000, PORT, SYN), family=family)
    came = frame(WORLD, EXTERNAL, tcp(4000, TARGET, SYN), family=family, daddr=NODE.address(family))
    back = frame(NODE, WORLD, tcp(TARGET, 4000, SYN | ACK), family=family)
    known = frame(
        NODE, WORLD, tcp(PORT, 4000, SYN | ACK), family=family, saddr=EXTERNAL.address(family)
    )
    for _ in range(2):
        assert node.comes_in(there) == came
        assert node.goes_out(back, pod=None) == known
    loaded(node, under_host_policy().allow_ingress("world", "host", tcp_port(PORT)))
    assert node.goes_out(back, pod=None) == known, "asked about with the client's next packet"
    assert node.comes_in(there) is None
    assert node.goes_out(back, pod=None) is None
    assert comes(node, tcp(4001, PORT, SYN), family), "what is to no Service is itself"
    assert not comes(node, tcp(4001, TARGET, SYN), family)


@families
def test_a_pod_reaches_the_node_through_a_service_where_host_policy_allows(
    node: NodeUnderTest, family: int
) -> None:
    policy = under_host_policy().allow_egress("a", "world", ANY)
    services = [service(), *slices([NODE])]
    loaded(node, policy.allow_ingress("a", "host", tcp_port(TARGET)), services=services)
    there = frame(A, VIP, tcp(4000, PORT, SYN), family=family)
    back = frame(NODE, A, tcp(TARGET, 4000, SYN | ACK), family=family)
    for _ in range(2):
        assert node.leaves("a", there) == frame(
            A, VIP, tcp(4000, TARGET, SYN), family=family, daddr=NODE.address(family)
        )
        assert node.arrives("a", back, came_in=None) == frame(
            NODE, A, tcp(PORT, 4000, SYN | ACK), family=family, saddr=VIP.address(family)
        )
    loaded(node, under_host_policy().allow_egress("a", "world", ANY))
    assert node.leaves("a", there) is None


@families
def test_only_nodes_send_to_the_tunnel_port(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    assert not comes(node, udp(5000, 8477), family)
    assert not goes(node, udp(5000, 8477), family, C)


@families
def test_a_process_of_the_node_that_sets_a_policyc_mark_does_not_bypass_policy(
    node: NodeUnderTest, family: int
) -> None:
    """A process with CAP_NET_RAW may set a mark (SO_MARK)."""
    loaded(node)
    sent = frame(NODE, WORLD, tcp(4000, 80, SYN), family=family)
    with bpf_syscall.obj_get(node.pins.hook("pc_to_uplink")) as fd:
        for mark in (0x70630000, 0x70635222, 0x70635223):
            assert run_through(fd, sent, node.ifindex[UPLINK], 0, mark)[0] == DROP, hex(mark)


@families
def test_a_node_without_host_policy_is_unaffected(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    assert switch.read(node.pins.map("pc_state")).has_host
    assert not comes(node, tcp(4000, 80, SYN), family)
    for policy in (node.policy(), under_host_policy(node="node-2")):
        loaded(node, policy)
        assert not switch.read(node.pins.map("pc_state")).has_host
        assert comes(node, tcp(4000, 80, SYN), family)
        assert goes(node, tcp(80, 4000, SYN | ACK), family)
        assert goes(node, tcp(4001, 443, SYN), family)
        assert node.connections(family) == [], "nothing is looked at"


@families
def test_a_change_of_services_keeps_the_host_policy(node: NodeUnderTest, family: int) -> None:
    loaded(node)
    node.serve([service(), *slices([A])])
    assert switch.read(node.pins.map("pc_state")).has_host
    assert not comes(node, tcp(4000, 80, SYN), family)
    assert comes(node, tcp(4000, 22, SYN), family)


def test_without_uplinks_the_bundle_is_refused(node: NodeUnderTest) -> None:
    with pytest.raises(InputError, match="without an uplink nothing enforces"):
        node.load(under_host_policy())
    with pytest.raises(InputError, match="has host policy for eth7 of this node"):
        loaded(node, under_host_policy(interface="eth7"))
    assert node.status() is None
    loaded(node, under_host_policy(interface=UPLINK))


def test_status_shows_the_failsafe_ports(node: NodeUnderTest) -> None:
    loaded(node, open_ports={"inbound": "22", "outbound": "none"})
    found = node.status()
    assert found is not None
    assert isinstance(found.host, LoadedHost)
    assert found.host.name == "n1-all"
    assert (found.host.failsafes.inbound, found.host.failsafes.outbound) == (("tcp:22",), ())
    assert [e.addresses for e in found.endpoints if e.is_host] == [(NODE.ip4,), (NODE.ip6,)]
    said = json.loads(json.dumps(found.to_json()))
    jsonschema.validate(said, json.loads(SCHEMA.read_text()))
    assert said["host"]["failsafes"] == {"inbound": ["tcp:22"], "outbound": []}
    loaded(node, node.policy())
    found = node.status()
    assert found is not None and found.host is None


@pytest.mark.parametrize("mode", ["clsact"])
def test_host_policy_is_enforced_with_clsact(node: NodeUnderTest, mode: Any) -> None:
    loaded(node, under_host_policy().allow_ingress("world", "host", tcp_port(80)), mode=mode)
    assert comes(node, tcp(4000, 80, SYN), 4)
    assert not comes(node, tcp(4000, 81, SYN), 4)


def test_addresses_of_the_node_that_the_file_does_not_list_are_under_host_policy(
    node: NodeUnderTest,
) -> None:
    from tests.kernel.support.node_under_test import ip

    ip("addr", "add", "192.0.2.77/32", "dev", "lo")
    loaded(node)
    assert node.comes_in(frame(WORLD, NODE, tcp(4000, 80, SYN), daddr="192.0.2.77")) is None
    assert node.comes_in(frame(WORLD, NODE, tcp(4000, 22, SYN), daddr="192.0.2.77"))
    assert node.comes_in(frame(WORLD, NODE, icmp(8, 0, 7), daddr="192.0.2.77")) is None


def test_icmpv6_is_decided_by_policy(node: NodeUnderTest) -> None:
    loaded(node)
    assert not comes(node, icmp6(139), 6)
