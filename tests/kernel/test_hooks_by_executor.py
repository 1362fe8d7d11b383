# SPDX-License-Identifier: Apache-2.0
"""The datapath's hooks do on the executor what they do in the kernel, frame by frame, map by map."""

import random

import pytest

from tests.kernel.hooks_by_executor import Twin
from tests.kernel.node_under_test import DROP, HOSTS, LOCAL, NEXT, UPLINK, NodeUnderTest
from tests.kernel.packets import ACK, FIN, RST, SYN, frame, tcp, udp
from tests.kernel.policy_by_executor import one_cpu
from tests.kernel.table_policy import PING4, PING6, tcp_port, udp_port

pytestmark = pytest.mark.kernel
RANDOM = 70


Sent = tuple[str, str, bytes]
TALK = ((True, SYN), (False, SYN | ACK), (True, ACK), (True, ACK), (False, ACK), (True, FIN | ACK))
"""Whether the client speaks, and how."""


def conversation(client: str, server: str, client_port: int, port: int, family: int) -> list[Sent]:
    """A connection of TCP from its beginning to where one end has closed it."""
    ends = HOSTS[client], HOSTS[server]
    there = [frame(*ends, tcp(client_port, port, flags), family=family) for _, flags in TALK]
    back = [frame(*ends[::-1], tcp(port, client_port, flags), family=family) for _, flags in TALK]
    return [
        (client, server, there[at]) if is_client else (server, client, back[at])
        for at, (is_client, _) in enumerate(TALK)
    ]


def random_frame(rng: random.Random) -> Sent:
    """Who sends to whom, and what: few ends and ports, so that answers and repetitions come by."""
    src, dst = rng.sample(["a", "b", "c", "world"], 2)
    if not {src, dst} & LOCAL.keys():
        dst = "a"
    ports = rng.choice(((1000, 80), (80, 1000), (1001, 81), (53, 1002), (1002, 53)))
    flags = rng.choice((SYN, SYN | ACK, ACK, ACK, FIN | ACK, RST))
    payload = tcp(*ports, flags) if rng.random() < 0.7 else udp(*ports)
    family = rng.choice((4, 6))
    data = frame(HOSTS[src], HOSTS[dst], payload, family=family)
    if rng.random() < 0.1:
        data = data[: rng.randrange(max(34, 14 + 40 * (family == 6)), len(data) + 1)]
    return src, dst, data


def frames(rng: random.Random) -> list[Sent]:
    """Conversations of which each goes on now and then, and anything in between."""
    talks = [
        conversation(*ends, family)
        for ends in (("a", "b", 1000, 80), ("a", "world", 1001, 80), ("c", "a", 1002, 81))
        for family in (4, 6)
    ]
    order = [talk for talk in talks for _ in talk]
    rng.shuffle(order)
    steps = {id(talk): iter(talk) for talk in talks}
    said = [next(steps[id(talk)]) for talk in order]
    for _ in range(RANDOM):
        said.insert(rng.randrange(len(said) + 1), random_frame(rng))
    question = frame(HOSTS["a"], HOSTS["b"], udp(1003, 53), family=4)
    return [*said, ("a", "b", question)]


def test_random_frames(node: NodeUnderTest) -> None:
    rng = random.Random(7)
    policy = node.policy().allow("a", "b", tcp_port(80), udp_port(53), PING4, PING6)
    policy.allow("a", "world", tcp_port(80)).allow("c", "a", tcp_port(81), udp_port(53))
    node.load(policy, forward="stack")
    verdicts = set()
    with one_cpu() as cpu:
        twin = Twin(node, cpu)
        for src, dst, data in frames(rng):
            if src in LOCAL:
                device = node.ifindex[LOCAL[src]]
                verdicts.add(twin.run("pc_from_pod", data, device, device))
            if dst in LOCAL:
                came_in = node.ifindex[LOCAL.get(src, UPLINK)]
                verdicts.add(twin.run("pc_to_pod", data, node.ifindex[LOCAL[dst]], came_in))
        twin.compare_all()
        left = twin.left_here()
    assert verdicts == {NEXT, DROP}
    assert left["pc_ct4_new"], "some have begun"
    assert left["pc_ct4"], "and some are kept"
