# SPDX-License-Identifier: Apache-2.0
"""`node load --reset-revoked`: the sender in a TCP connection that policy denies gets a reset."""

import errno
import socket
from pathlib import Path
from typing import Literal

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import leftovers
from policyc.runtime.policy import revoked
from policyc.runtime.snat.snat import Masquerade
from tests.attacks.revoked_connection import (
    CASES,
    PORT,
    TCP,
    Open,
    Where,
    connect,
    denying,
    families,
    open_policy,
    received,
)
from tests.attacks.revoked_host_connection import (
    DENYING,
    ENDS,
    OPEN,
    Bundles,
    Side,
    bundles,
    sides,
)
from tests.attacks.revoked_host_connection import (
    connect as connect_host,
)
from tests.eventually import eventually
from tests.kernel.support.arrival import SILENCE, connects
from tests.kernel.support.killed import (
    die,
    killed,
)
from tests.kernel.support.node_under_test import (
    HOSTS,
    LOCAL,
    UPLINK,
    NodeUnderTest,
    endpoint,
)
from tests.kernel.support.service_wire import (
    ServiceWire,
)
from tests.kernel.support.service_yaml import (
    VIP,
    service,
    slices,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel.support.two_nodes import TwoNodes

pytestmark = pytest.mark.kernel
End = Literal["client", "server"]
firsts = pytest.mark.parametrize("first", ["client", "server"])
OTHER: dict[End, End] = {"client": "server", "server": "client"}
RETRANSMITS = 2
"""The place of `tcpi_retransmits` in struct tcp_info."""
GONE = (errno.ECONNRESET, errno.EPIPE)
__all__ = ["bundles"]


def in_force(node: NodeUnderTest) -> int:
    """The id of the program that resets connections, by the generation in force; 0: there is none."""
    epoch = switch.read(node.pins.map("pc_state")).epoch
    return revoked.program_id(node.pins.generation(epoch))


def is_reset(end: socket.socket) -> bool:
    """Whether the end has lost its connection by a reset."""
    return end.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in GONE or _receives(end) in GONE


def is_repeating(end: socket.socket) -> bool:
    """Whether its stack has retransmitted a segment that is not acknowledged yet."""
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
    return info[RETRANSMITS] > 0


def _receives(end: socket.socket) -> int | None:
    end.setblocking(False)
    try:
        end.recv(1000)
    except BlockingIOError:
        return None
    except OSError as error:
        return error.errno
    return None


def require_reset(found: Open, *ends: End) -> None:
    """Each end is reset when it sends, and not before."""
    for end in (getattr(found, name) for name in ends):
        assert not is_reset(end), "a silent end gets no reset"
        end.setblocking(True)
        end.sendall(b"after the revocation")
        eventually(lambda end=end: is_reset(end), "the sender is reset")


@families
@pytest.mark.parametrize(("where", "ends"), CASES)
@firsts
def test_a_revoked_connection_is_reset(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    where: Where,
    ends: tuple[str, str],
    first: End,
) -> None:
    node.load(open_policy(node), resets=True)
    found = connect(wire, *ends, family)
    node.load(denying(node, where, *ends), resets=True)
    require_reset(found, first, OTHER[first])


@families
@pytest.mark.parametrize(("where", "ends"), CASES)
def test_the_first_load_resets_a_denied_connection(
    node: NodeUnderTest, wire: ServiceWire, family: int, where: Where, ends: tuple[str, str]
) -> None:
    """A remote client gets none once the server's socket is closed: nothing else shows which end
    opened.
    """
    found = connect(wire, *ends, family)
    node.load(denying(node, where, *ends), resets=True)
    require_reset(found, "server")
    if ends[0] != "c":
        require_reset(found, "client")


@families
@pytest.mark.parametrize("ends", [("a", "b"), ("a", "c")], ids=["of this node", "of another node"])
@firsts
def test_a_connection_to_a_service_is_reset(
    node: NodeUnderTest, wire: ServiceWire, family: int, ends: tuple[str, str], first: End
) -> None:
    client, server = ends
    objects = [service(port=PORT), *slices([HOSTS[server]], port=PORT)]
    node.load(open_policy(node), resets=True, services=objects)
    listening = wire.server(server, family, TCP, PORT)
    made = wire.open_socket(client, family, TCP)
    made.connect((VIP.address(family), PORT))
    found = Open(made, wire.own(listening.accept()[0]))
    assert found.talks()
    node.load(denying(node, "egress at the client", client, server), resets=True, services=objects)
    require_reset(found, first, OTHER[first])


@families
@firsts
def test_a_connection_that_leaves_the_cluster_is_reset(
    node: NodeUnderTest, wire: ServiceWire, family: int, first: End
) -> None:
    """The external host gets the reset from the node's address."""
    masquerade = Masquerade(range(50000, 60001))
    node.load(open_policy(node), resets=True, uplinks=[UPLINK], masquerade=masquerade)
    found = connect(wire, "a", "c", family)
    policy = denying(node, "egress at the client", "a", "c")
    node.load(policy, resets=True, uplinks=[UPLINK], masquerade=masquerade)
    require_reset(found, first, OTHER[first])


@families
@sides
@firsts
def test_a_connection_of_the_node_is_reset(
    lab: TwoNodes, bundles: Bundles, family: int, side: Side, first: End
) -> None:
    lab.load("a", bundles.of(OPEN), None, resets=True)
    found = connect_host(lab, *ENDS[side], family)
    lab.load("a", bundles.of(DENYING[side]), None, resets=True)
    require_reset(found, first, OTHER[first])


@families
def test_a_new_connection_gets_no_reset(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """A SYN is dropped silently, from new ports and from those of a revoked connection."""
    node.load(open_policy(node), resets=True)
    found = connect(wire, "a", "b", family)
    node.load(denying(node, "ingress at the server", "a", "b"), resets=True)
    own = found.client.getsockname()[1]
    require_reset(found, "client", "server")
    found.client.close()
    for port in (own, 0):
        again = wire.open_socket("a", family, TCP)
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((HOSTS["a"].address(family), port))
        assert not connects(again, (HOSTS["b"].address(family), PORT), SILENCE)


@families
def test_an_allowed_connection_is_not_reset(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    node.load(open_policy(node), resets=True)
    found = connect(wire, "a", "b", family)
    node.load(open_policy(node), resets=True)
    assert found.talks()


@families
def test_a_load_without_the_option_stops_the_resets(
    node: NodeUnderTest, wire: ServiceWire, family: int
) -> None:
    """Denied connections are dropped silently afterwards."""
    node.load(open_policy(node), resets=True)
    assert in_force(node)
    found = connect(wire, "a", "b", family)
    node.load(denying(node, "ingress at the server", "a", "b"))
    assert not in_force(node)
    assert found.is_silent("server", "client")


def test_a_load_that_fails_keeps_the_choice_in_force(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option is on or off. `monkeypatch` fails the last step before the switch."""

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "it fails")

    node.load(node.policy().allow("a", "b", ANY))
    for was_on in (False, True):
        if was_on:
            node.load(node.policy(), resets=True)
        before = in_force(node)
        with monkeypatch.context() as failing, pytest.raises(OSError, match="it fails"):
            failing.setattr(switch, "store", fails)
            node.load(node.policy(), resets=True)
        assert (in_force(node) == before) == (bool(before) == was_on)


@families
@pytest.mark.parametrize("resets_before", [False, True], ids=["silent before", "resets before"])
@pytest.mark.parametrize("ends", [("b", "c"), ("b", "a")], ids=["another node", "this node"])
def test_a_load_resets_no_connection_of_a_pod_that_it_adds(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    resets_before: bool,
    ends: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the switch the active generation meets the pod and has no rule for it: no reset."""
    found = connect(wire, *ends, family)
    known = [endpoint("a", HOSTS["a"], LOCAL["a"]), endpoint("c", HOSTS["c"], None)]
    node.load(open_policy(node), resets=resets_before, entries=known)
    store = switch.store

    def speaks_first(pin: Path, word: switch.Word) -> None:
        for each in (found.client, found.server):
            each.sendall(b"x")
            eventually(lambda each=each: is_repeating(each) or is_reset(each), "it is dropped")
        store(pin, word)

    with monkeypatch.context() as switching:
        switching.setattr(switch, "store", speaks_first)
        node.load(open_policy(node), resets=True)
    assert received(found.client, 1) == received(found.server, 1) == b"x"
    assert found.talks()


@families
@pytest.mark.parametrize("was_on", [False, True], ids=["silent before", "resets before"])
def test_a_load_killed_at_its_switch_keeps_the_choice_in_force(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    was_on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The killed load has the opposite choice."""
    node.load(open_policy(node))
    found = connect(wire, "a", "b", family)
    denied = denying(node, "ingress at the server", "a", "b")
    node.load(denied, resets=was_on)
    with monkeypatch.context() as dying:
        dying.setattr(switch, "store", die)
        killed(lambda: node.load(denied, resets=not was_on))
    if was_on:
        require_reset(found, "client", "server")
    else:
        assert found.is_silent("server", "client")


@families
@pytest.mark.parametrize("is_on", [False, True], ids=["silent", "resets"])
def test_a_load_that_is_killed_after_its_switch_has_its_choice_in_force(
    node: NodeUnderTest,
    wire: ServiceWire,
    family: int,
    is_on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node.load(open_policy(node), resets=not is_on)
    found = connect(wire, "a", "b", family)
    denied = denying(node, "ingress at the server", "a", "b")
    with monkeypatch.context() as dying:
        dying.setattr(leftovers, "sweep", die)
        killed(lambda: node.load(denied, resets=is_on))
    if is_on:
        require_reset(found, "client", "server")
    else:
        assert found.is_silent("server", "client")


def test_status_shows_the_option(node: NodeUnderTest) -> None:
    for resets in (True, False):
        node.load(node.policy(), resets=resets)
        found = node.status()
        assert found and found.resets_revoked == resets
