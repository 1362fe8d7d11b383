# SPDX-License-Identifier: Apache-2.0
"""An accepted socket alone does not make its packets replies.

Policy denies the attacker to open a connection to the victim, and allows the victim to open one to
the attacker. The attacker's kernel holds an accepted socket with the victim as its peer, although
the victim has sent nothing (`forger.py`). A control in each test allows the attacker's direction:
then the same segment, which the attacker's stack sends again, arrives.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from policyc.runtime.endpoints.forwarding import Forwarding
from tests.attacks.forger import OWN_PORT, End, Forger
from tests.attacks.revoked_connection import (
    SILENCE,
    open_policy,
)
from tests.attacks.revoked_host_connection import (
    DENYING,
    OPEN,
)
from tests.eventually import eventually
from tests.kernel.support.arrival import accepted, arrived
from tests.kernel.support.bundles import compiled
from tests.kernel.support.host_policy_wire import OUT
from tests.kernel.support.node_under_test import (
    HOSTS,
    NodeUnderTest,
)
from tests.kernel.support.service_wire import (
    DEVICES,
    ServiceWire,
)
from tests.kernel.support.table_policy import TablePolicy
from tests.kernel.support.two_nodes import (
    TwoNodes,
    address,
)

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
ATTACKER = "a"
VICTIM_PORT = 8080
VICTIMS = {"a pod of this node": "b", "a pod of another node": "c", "the node": "node"}
CASES = [pytest.param("egress", victim, id=f"egress, {name}") for name, victim in VICTIMS.items()]
CASES.append(pytest.param("ingress", "b", id="ingress, a pod of this node"))
cases = pytest.mark.parametrize(("where", "victim"), CASES)
cases_here = pytest.mark.parametrize(
    ("where", "victim"), [each for each in CASES if each.values[1] != "c"]
)


def denying(node: NodeUnderTest, where: str, victim: str) -> TablePolicy:
    """Everything is allowed, but what the attacker opens to the victim."""
    policy = open_policy(node)
    own, other = policy.number(ATTACKER), policy.number("world" if victim == "node" else victim)
    if where == "egress":
        del policy.egress[own, other]
    else:
        del policy.ingress[other, own]
    return policy


def load_twice(node: NodeUnderTest, policy: TablePolicy, forward: Forwarding = "redirect") -> None:
    """Under the first load an accepted socket counts where its peer's stack is elsewhere."""
    node.load(open_policy(node), forward=forward)
    node.load(policy, forward=forward)


def end(wire: ServiceWire, name: str, family: int) -> End:
    pod = None if name == "node" else name
    return End(lambda make: wire.within(pod, make), HOSTS[name].address(family))


def forger(wire: ServiceWire, victim: str, family: int) -> Forger:
    attacker = end(wire, ATTACKER, family)
    device = f"{DEVICES[ATTACKER]}.p"
    return Forger(attacker, device, end(wire, victim, family), VICTIM_PORT, wire.own)


def arrives(attack: Forger, data: bytes) -> bool:
    return any(each.data == data for each in attack.reaching(SILENCE))


@families
@cases
@pytest.mark.parametrize("forward", ["redirect", "stack"])
def test_packets_of_a_forged_accepted_socket_do_not_arrive(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    where: str,
    victim: str,
    forward: Forwarding,
) -> None:
    load_twice(node, denying(node, where, victim), forward)
    attack = forger(wire, victim, family)
    data = os.urandom(100)
    attack.accepts().sendall(data)
    assert not list(attack.reaching(SILENCE))
    assert node.drops()["policy"] >= 1
    node.load(open_policy(node), forward=forward)
    eventually(lambda: arrives(attack, data), "the data")


@families
@cases
def test_the_answer_to_a_forged_syn_does_not_arrive(
    node: NodeUnderTest, wire: ServiceWire, family: int, where: str, victim: str
) -> None:
    """A socket in SYN-RECV does not make the SYN-ACK a reply either."""
    load_twice(node, denying(node, where, victim))
    attack = forger(wire, victim, family)
    answer = attack.half_opens()
    assert not list(attack.reaching(SILENCE))
    assert node.drops()["policy"] >= 1
    node.load(open_policy(node))
    eventually(lambda: answer in attack.reaching(SILENCE), "the SYN-ACK")


@families
@cases_here
def test_the_first_load_passes_no_forged_segment_to_a_local_victim(
    node: NodeUnderTest, wire: ServiceWire, family: int, where: str, victim: str
) -> None:
    """The victim's own stack does not know the connection."""
    node.load(denying(node, where, victim))
    attack = forger(wire, victim, family)
    data = os.urandom(100)
    attack.accepts().sendall(data)
    assert not list(attack.reaching(SILENCE))
    assert node.drops()["policy"] >= 1
    node.load(open_policy(node))
    eventually(lambda: arrives(attack, data), "the data")


@families
def test_the_second_load_ends_a_forged_connection_to_a_remote_victim(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The first load keeps connections that were open before. It knows the local sockets only
    (0044).
    """
    node.load(denying(node, "egress", "c"))
    attack = forger(wire, "c", family)
    accepted, before, after = attack.accepts(), os.urandom(100), os.urandom(100)
    accepted.sendall(before)
    eventually(lambda: arrives(attack, before), "the data")
    node.load(denying(node, "egress", "c"))
    list(attack.reaching(0))
    accepted.sendall(after)
    assert not list(attack.reaching(SILENCE))
    node.load(open_policy(node))
    eventually(lambda: arrives(attack, before), "the data")


@families
def test_a_reset_from_the_victim_does_not_make_it_the_client(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """The victim's stack resets segments that arrived under the first load. Such a segment is sent
    again after the second.
    """
    node.load(denying(node, "egress", "c"))
    attack = forger(wire, "c", family)
    data = os.urandom(100)
    attack.accepts().sendall(data)
    eventually(lambda: arrives(attack, data), "the data")
    node.load(denying(node, "egress", "c"))
    list(attack.reaching(0))
    attack.is_reset()
    assert not list(attack.reaching(SILENCE))
    node.load(open_policy(node))
    eventually(lambda: arrives(attack, data), "the data")


@families
@cases
def test_a_connection_that_the_victim_opens_is_answered(
    node: NodeUnderTest, wire: ServiceWire, family: int, where: str, victim: str
) -> None:
    """The policy is the same. It denies only the opening direction of the forged connection."""
    load_twice(node, denying(node, where, victim))
    listening = wire.server(ATTACKER, family, socket.SOCK_STREAM, OWN_PORT)
    pod = None if victim == "node" else victim
    made = wire.open_socket(pod, family, socket.SOCK_STREAM)
    made.connect((HOSTS[ATTACKER].address(family), OWN_PORT))
    served = wire.own(accepted(listening))
    served.sendall(b"an answer")
    assert arrived(made) == b"an answer"


@pytest.fixture(scope="module")
def host_bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("forged")
    texts = {"open": OPEN, "denying": DENYING["egress"]}
    return {name: compiled(folder, text, name=name) for name, text in texts.items()}


@contextmanager
def diverted(lab: TwoNodes, victim: str) -> Iterator[str]:
    """A device that has the route to the victim, and no hook: there the attacker reads its SYN-ACK.

    At the uplink, the node's hook comes before a packet socket.
    """
    network, device, size = lab.at["a"].network, "diverted", 128 if ":" in victim else 32
    network.add(device, "veth", peer={"ifname": "unheard"})
    for each in (device, "unheard"):
        network.up(each)
    network.neighbour(victim, network.mac("unheard"), device)
    network.route(f"{victim}/{size}", device=device)
    yield device
    network.remove(device)


@families
def test_a_host_network_pod_of_a_node_under_host_policy_forges_no_answer(
    lab: TwoNodes, host_bundles: dict[str, Path], family: int
) -> None:
    """A hostNetwork pod shares the node's sockets and the node's egress policy."""
    lab.load("a", host_bundles["open"], None)
    lab.load("a", host_bundles["denying"], None)
    node, client = (End(lab.at[name].within, address(name, family)) for name in ("a", "client2"))
    with ExitStack() as owned:
        with diverted(lab, client.address) as device:
            attack = Forger(node, device, client, OUT, owned.enter_context)
            accepted = attack.accepts()
        data = os.urandom(100)
        accepted.sendall(data)
        assert not list(attack.reaching(SILENCE))
        assert lab.status("a").drops["policy"] >= 1
        lab.load("a", host_bundles["open"], None)
        eventually(lambda: arrives(attack, data), "the data")


@families
def test_the_second_load_ends_a_connection_that_a_host_network_pod_forged(
    lab: TwoNodes, host_bundles: dict[str, Path], family: int
) -> None:
    """No socket on this node can show that the peer does not know the connection."""
    lab.load("a", host_bundles["denying"], None)
    node, client = (End(lab.at[name].within, address(name, family)) for name in ("a", "client2"))
    with ExitStack() as owned:
        with diverted(lab, client.address) as device:
            attack = Forger(node, device, client, OUT, owned.enter_context)
            accepted = attack.accepts()
        data = os.urandom(100)
        accepted.sendall(data)
        eventually(lambda: arrives(attack, data), "the data")
        lab.load("a", host_bundles["denying"], None)
        list(attack.reaching(0))
        attack.is_reset()
        assert not list(attack.reaching(SILENCE))
        lab.load("a", host_bundles["open"], None)
        eventually(lambda: arrives(attack, data), "the data")
