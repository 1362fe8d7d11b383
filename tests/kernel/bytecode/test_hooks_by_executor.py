# SPDX-License-Identifier: Apache-2.0
"""The executor and the kernel run the hooks on the same frames, with equal results and maps."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support import external_frames as outside
from tests.kernel.support import snat_frames as masquerade
from tests.kernel.support.answers import REDIRECT
from tests.kernel.support.hooks_by_executor import (
    ALL_HOOKS,
    POD_HOOKS,
    Twin,
)
from tests.kernel.support.node_under_test import (
    DROP,
    HOSTS,
    LOCAL,
    NEXT,
    NODE,
    UPLINK,
    WORLD,
    A,
    C,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    ACK,
    FIN,
    RST,
    SYN,
    Host,
    frame,
    tcp,
    udp,
)
from tests.kernel.support.policy_by_executor import one_cpu
from tests.kernel.support.service_frames import (
    answer,
    to_vip,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    TARGET,
    VIP,
    service,
    slices,
    web,
)
from tests.kernel.support.table_policy import (
    ANY,
    PING4,
    PING6,
    tcp_port,
    udp_port,
)
from tests.property.length import examples

pytestmark = pytest.mark.kernel
RANDOM = examples(70, 3)


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
    """A random sender, receiver and payload: few ends and ports, so that replies and repetitions
    occur.
    """
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
    """Interleaved conversations, with random frames between them."""
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


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.slow) for n in range(7, 12)])
def test_executor_and_kernel_agree_on_random_frames(node: NodeUnderTest, seed: int) -> None:
    rng = random.Random(seed)
    policy = node.policy().allow("a", "b", tcp_port(80), udp_port(53), PING4, PING6)
    policy.allow("a", "world", tcp_port(80)).allow("c", "a", tcp_port(81), udp_port(53))
    node.load(policy, forward="stack")
    verdicts = set()
    with one_cpu() as cpu:
        twin = Twin(node, cpu)
        for src, dst, data in frames(rng):
            if src in LOCAL:
                device = node.ifindex[LOCAL[src]]
                verdicts.add(twin.run("pc_from_pod", data, device, device)[0])
            if dst in LOCAL:
                came_in = node.ifindex[LOCAL.get(src, UPLINK)]
                verdicts.add(twin.run("pc_to_pod", data, node.ifindex[LOCAL[dst]], came_in)[0])
        twin.compare_all()
        left = twin.left_here()
    assert verdicts == {NEXT, DROP}
    assert left["pc_ct4_new"], "some have begun"
    assert left["pc_ct4"], "some are established"


# --- uplinks, Services, SNAT, the tunnel ------------------------------------------------------------

FAR = Host(NODE.mac, "192.0.2.81", "2001:db8:80::2")
"""An external IP of a Service whose endpoint is on another node."""
NODE_2 = ("10.0.2.1", "fd00:2::1")
HANDED = 0x70630001
"""PC_FORWARDED_MARK, with the number of an address of the other node: it came out of the tunnel."""
FLAGS = (SYN, ACK, ACK, FIN | ACK)
Journey = Iterator[None]
"""A connection, which goes on by one packet and its answer at each step."""


@dataclass
class Road:
    """The hooks of the node on the executor and in the kernel, and how often each changed a frame."""

    node: NodeUnderTest
    twin: Twin
    changed: Counter[str] = field(default_factory=Counter)
    verdicts: set[tuple[str, int]] = field(default_factory=set)

    def through(
        self, hook: str, data: bytes, device: str, came_in: str, mark: int = 0
    ) -> bytes | None:
        """The frame after the hook. None if the hook drops or redirects it."""
        at, by = self.node.ifindex[device], self.node.ifindex[came_in]
        verdict, out = self.twin.run(hook, data, at, by, mark)
        self.verdicts.add((hook, verdict))
        self.changed[hook] += out != data
        return out if verdict == NEXT else None

    def from_pod(self, data: bytes) -> bytes | None:
        return self.through("pc_from_pod", data, LOCAL["a"], LOCAL["a"])

    def to_pod(self, data: bytes) -> bytes | None:
        return self.through("pc_to_pod", data, LOCAL["a"], UPLINK)

    def from_uplink(self, data: bytes, mark: int = 0) -> bytes | None:
        return self.through("pc_from_uplink", data, UPLINK, UPLINK, mark)

    def from_tunnel(self, data: bytes) -> bytes | None:
        return self.through("pc_from_tunnel", data, UPLINK, UPLINK)

    def to_uplink(self, data: bytes) -> bytes | None:
        return self.through("pc_to_uplink", data, UPLINK, LOCAL["a"])

    def pod_to_service(self, port: int, family: int) -> Journey:
        for flags in FLAGS:
            self.from_pod(to_vip(tcp(port, PORT, flags), family))
            self.to_pod(answer(C, tcp(TARGET, port, flags | ACK), family))
            yield

    def client_to_service(self, port: int, family: int, mark: int = 0) -> Journey:
        for flags in FLAGS:
            came = self.from_uplink(outside.sent(tcp(port, PORT, flags), family), mark)
            if came is not None:
                self.to_pod(came)
            back = tcp(TARGET, port, flags | ACK)
            self.from_pod(frame(A, WORLD, back, family=family))
            self.to_uplink(outside.answer(back, family))
            yield

    def client_to_another_node(self, port: int, family: int) -> Journey:
        for flags in FLAGS:
            self.from_uplink(frame(WORLD, FAR, tcp(port, PORT, flags), family=family))
            yield

    def pod_to_world(self, port: int, family: int) -> Journey:
        for flags in FLAGS:
            said = tcp(port, 80, flags)
            self.from_pod(frame(A, WORLD, said, family=family))
            left = self.to_uplink(masquerade.sent(said, family))
            if left is not None:
                own = masquerade.port_of(left, family)
                back = masquerade.answer(tcp(80, own, flags | ACK), family)
                came = self.from_uplink(back)
                if came is not None:
                    self.to_pod(came)
            yield

    def noise(self, rng: random.Random) -> Journey:
        pod_hooks = self.from_pod, self.to_pod
        uplink_hooks = self.from_uplink, self.to_uplink, self.from_tunnel
        for _ in range(RANDOM):
            _, _, data = random_frame(rng)
            rng.choice(pod_hooks)(data)
            rng.choice(uplink_hooks)(data)
            yield


def journeys(road: Road, rng: random.Random) -> Iterator[Journey]:
    for number in range(examples(2, 2)):
        for family in (4, 6):
            ports = iter(range(4000 + 10 * number, 4010 + 10 * number))
            yield road.pod_to_service(next(ports), family)
            yield road.client_to_service(next(ports), family)
            yield road.client_to_service(next(ports), family, HANDED)
            yield road.client_to_another_node(next(ports), family)
            yield road.pod_to_world(next(ports), family)
    yield road.noise(rng)


def walk(road: Road, rng: random.Random) -> None:
    """All journeys at once, in any order."""
    going = list(journeys(road, rng))
    while going:
        one = rng.choice(going)
        if next(one, going) is going:
            going.remove(one)


def all_services() -> list[JsonValue]:
    far = service("far", OTHER_VIP, externalIPs=[FAR.ip4, FAR.ip6])
    near = service("near", Host(VIP.mac, "10.96.0.12", "fd96::12"), externalIPs=[
        outside.EXTERNAL.ip4, outside.EXTERNAL.ip6
    ])  # fmt: skip
    return [*web(C), near, *on("node-1", A, "near"), far, *on("node-2", C, "far")]


def on(node: str, endpoint: Host, name: str) -> list[JsonValue]:
    """The slices of a Service whose endpoint is on a node."""
    found = slices([endpoint], name)
    for each in found:
        (listed,) = each.raw["endpoints"]
        listed["nodeName"] = node
    return found


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 8))]
)
def test_executor_and_kernel_agree_on_uplinks_services_tunnel_and_snat(
    node: NodeUnderTest, seed: int
) -> None:
    node.other_nodes = {"node-2": NODE_2}
    policy = node.policy().allow("a", "c", ANY).allow("a", "world", ANY)
    policy.allow_ingress("world", "a", ANY)
    node.load(
        policy,
        forward="stack",
        services=all_services(),
        uplinks=[UPLINK],
        masquerade=Masquerade(range(50000, 50064)),
    )
    with one_cpu() as cpu:
        road = Road(node, Twin(node, cpu, ALL_HOOKS))
        walk(road, random.Random(seed))
        road.twin.compare_all()
        left = road.twin.left_here()
    assert all(road.changed[hook] for hook in (*POD_HOOKS, "pc_from_uplink", "pc_to_uplink"))
    tunnelled = {hook for hook, verdict in road.verdicts if verdict == REDIRECT}
    assert tunnelled >= {"pc_from_uplink", "pc_to_uplink"}, "into the tunnel: requests and answers"
    assert left["pc_ct4"] and left["pc_ct6"] and left["pc_snat_entries"]
