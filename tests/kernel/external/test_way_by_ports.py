# SPDX-License-Identifier: Apache-2.0
"""The hooks' route lookup agrees with the host's stack, also where routing rules name ports and
where loopback does not forward.
"""

import socket
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.answers import (
    DROP,
    NEXT,
    REDIRECT,
)
from tests.kernel.support.external_frames import (
    answer,
    answered,
    sent,
    served,
)
from tests.kernel.support.network import network
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    WORLD,
    A,
    C,
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.service_route import (
    loaded,
    sends,
    to,
)
from tests.kernel.support.service_yaml import (
    PORT,
    TARGET,
    VIP,
)
from tests.kernel.support.table_policy import ANY

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
SECOND = "pcup2"
TABLE = 100


@pytest.fixture(autouse=True)
def two_ways(node: NodeUnderTest) -> None:
    """The node forwards, and has a second device that leads to everybody, in a table of its own."""
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        Path(f"/proc/sys/net/{name}").write_text("1")
    with network() as own:
        own.add(SECOND, "veth", peer={"ifname": f"{SECOND}.p"})
        own.up(SECOND)
        for device in ("lo", UPLINK, SECOND, *LOCAL.values()):
            Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("0")
        own.up(f"{SECOND}.p")
        for family, bits in ((4, 32), (6, 128)):
            own.add_address("lo", f"{NODE.address(family)}/{bits}")
            for host in (C, WORLD):
                own.route(f"{host.address(family)}/{bits}", device=UPLINK)
                own.route(f"{host.address(family)}/{bits}", device=SECOND, table=TABLE)


@families
def test_routing_rules_match_the_translated_ports_of_the_nodes_own_packets(
    node: NodeUnderTest, family: int
) -> None:
    """Replies are translated only at uplinks. A packet that a rule routes elsewhere is dropped."""
    loaded(node, C)
    asked = to(VIP, tcp(4000, PORT, SYN), family)
    assert sends(node, asked) == to(C, tcp(4000, TARGET, SYN), family)
    with network() as own:
        own.port_rule(10, TABLE, family, to=TARGET + 1)
        own.port_rule(11, TABLE, family, source=4001)
    assert sends(node, asked) == to(C, tcp(4000, TARGET, SYN), family)
    assert sends(node, to(VIP, tcp(4001, PORT, SYN), family)) is None
    with network() as own:
        own.port_rule(12, TABLE, family, to=TARGET)
    assert sends(node, asked) is None
    assert node.drops() == {"no route": 2}


def verdict_on(node: NodeUnderTest, out: bytes) -> int:
    """Of the uplink's hook, on what a pod has answered."""
    with bpf_syscall.obj_get(node.pins.hook("pc_to_uplink")) as fd:
        verdict, made = run_through(
            fd, out, socket.if_nametoindex(UPLINK), socket.if_nametoindex(LOCAL["a"])
        )
    assert verdict != DROP
    assert made[12:] != out[12:], "it is translated either way"
    return verdict


@families
@pytest.mark.parametrize("make", [tcp, udp], ids=["tcp", "udp"])
@pytest.mark.parametrize("forwards", ["1", "0"], ids=["lo forwards", "lo does not"])
def test_routing_rules_match_the_translated_ports_of_replies_to_external_clients(
    node: NodeUnderTest, family: int, make, forwards: str
) -> None:
    """The ports of the packet as it leaves: the Service's and the client's."""
    policy = node.policy().allow("a", "world", ANY).allow_ingress("world", "a", ANY)
    node.load(policy, services=served(A, protocol=make.__name__.upper()), uplinks=[UPLINK, SECOND])
    for version in ("ipv4", "ipv6"):
        Path(f"/proc/sys/net/{version}/conf/lo/forwarding").write_text(forwards)
    first, back = ((SYN,), (SYN | ACK,)) if make is tcp else ((), ())
    assert node.comes_in(sent(make(4000, PORT, *first), family))
    out = answer(make(TARGET, 4000, *back), family)
    assert node.leaves("a", frame(A, WORLD, make(TARGET, 4000, *back), family=family))
    assert verdict_on(node, out) == NEXT
    with network() as own:
        own.port_rule(10, TABLE, family, source=TARGET)
        own.port_rule(11, TABLE, family, to=4001)
    assert verdict_on(node, out) == NEXT, "the endpoint's port is not the Service's"
    with network() as own:
        own.port_rule(12, TABLE, family, source=PORT)
    assert verdict_on(node, out) == REDIRECT
    expected = answered(make(PORT, 4000, *back), family)
    assert node.drops() == {} and expected != out
