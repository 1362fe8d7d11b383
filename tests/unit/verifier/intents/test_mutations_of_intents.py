# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs in the encoding of connections and intents: the battery notices every one of them.

A bug shows as a wrong answer, or as an InternalError, where the reference semantics does not confirm
what the solver found.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import z3

from policyc.ir.errors import InternalError
from policyc.ir.intents import Intent, Scope
from policyc.ir.peers import NodePeer, Where
from policyc.ir.policy import Direction
from policyc.verifier.cluster import connection as cluster_connection
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.intents import intents
from policyc.verifier.smt.terms import in_network
from policyc.verifier.symbolic import (
    connection,
    connection_terms,
)
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_ends import (
    ConnectionEnd,
    HostRules,
)
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.verdict_terms import Situation
from tests.slices import one_in
from tests.unit.verifier.intents.intent_battery import (
    QUESTIONS,
    Question,
)

pytestmark = pytest.mark.thorough

Patch = pytest.MonkeyPatch
NO, YES = z3.BoolVal(False), z3.BoolVal(True)


def decided_without(patch: Patch, part: str, value: object, *directions: Direction) -> None:
    """Policies are evaluated at these ends, although this part decides."""
    original = ConnectionTerms.is_decided

    def decided(self: ConnectionTerms, direction: Direction) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            if direction in directions:
                inner.setattr(self, part, value)
            return original(self, direction)

    patch.setattr(ConnectionTerms, "is_decided", decided)


def a_pod_to_itself_is_decided(patch: Patch) -> None:
    decided_without(patch, "is_same_pod", NO, *Direction)


def own_node_forgotten(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "is_from_own_node", lambda _: NO)


def every_node_is_the_own(patch: Patch) -> None:
    patch.setattr(
        ConnectionTerms, "is_from_own_node", lambda c: z3.And(c.src.is_node, c.dst.is_pod, c.speaks)
    )


def own_node_settles_ingress_alone(patch: Patch) -> None:
    """For a node under host policy, whose egress policies do not decide there either."""
    decided_without(patch, "is_from_own_node", lambda: NO, Direction.EGRESS)


def neighbours_forgotten(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "is_between_neighbours", lambda _: NO)


def neighbours_everywhere(patch: Patch) -> None:
    original = ConnectionTerms.is_between_neighbours
    patch.setattr(
        connection_terms, "in_network", lambda address, network: YES if network.version == 6 else NO
    )
    assert original is ConnectionTerms.is_between_neighbours


def ends_exchanged(patch: Patch) -> None:
    patch.setattr(
        ConnectionTerms,
        "_subject",
        lambda c, direction: c.dst if direction is Direction.EGRESS else c.src,
    )


def one_address_two_ends(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "_apart", lambda _: iter(()))


def nothing_shared(patch: Patch) -> None:
    patch.setattr(Situation, "shared", lambda _: iter(()))


def outside_to_outside(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "_kinds", lambda _: iter(()))


def named_ports_of_anybody(patch: Patch) -> None:
    def services_in(self: ConnectionTerms, ports: Any) -> Any:
        return z3.Or(*(connection_terms.asks_for(self.key, p, self.declares) for p in ports))

    patch.setattr(ConnectionTerms, "services_in", services_in)


def locality_forgotten(patch: Patch) -> None:
    patch.setattr(connection_terms, "_where", lambda peer, _: YES)


def local_is_remote(patch: Patch) -> None:
    def where(peer: NodePeer, is_local: Any) -> Any:
        return {Where.ANYWHERE: YES, Where.LOCAL: z3.Not(is_local), Where.REMOTE: is_local}[
            peer.where
        ]

    patch.setattr(connection_terms, "_where", where)


def excepts_forgotten(patch: Patch) -> None:
    patch.setattr(
        connection_terms, "in_block", lambda address, block: in_network(address, block.network)
    )


def hosts_never_guarded(patch: Patch) -> None:
    patch.setattr(HostRules, "of", staticmethod(lambda _: HostRules(False, False)))


def failsafe_ports_forgotten(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "_is_failsafe", lambda *_: NO)


def pod_networks_forgotten(patch: Patch) -> None:
    patch.setattr(connection, "in_pod_networks", lambda *_: iter(()))


def replicas_forgotten(patch: Patch) -> None:
    def only_one(site: Any) -> Iterator[Any]:
        yield site.before

    patch.setattr(cluster_connection, "_with_twin", only_one)


def held_addresses_are_free(patch: Patch) -> None:
    patch.setattr(ClusterConnection, "_is_free", lambda *_: iter(()))


def declared_ports_are_free(patch: Patch) -> None:
    original = ClusterConnection._facts

    def facts(self: ClusterConnection, end: ConnectionEnd, is_pod: bool, group: Any) -> Any:
        def without(term: Any) -> bool:
            return not any(term.children() and term.children()[0].eq(self.declares(p))
                           for p in self.named_ports)  # fmt: skip

        return filter(without, original(self, end, is_pod, group))

    patch.setattr(ClusterConnection, "_facts", facts)


def places_are_free(patch: Patch) -> None:
    patch.setattr(
        ClusterConnection, "_place", lambda c, end: z3.BitVec(f"{end.name} {id(end)} place", 8)
    )
    patch.setattr(ClusterConnection, "_facts", _facts_without_place)


def _facts_without_place(
    self: ClusterConnection, end: ConnectionEnd, is_pod: bool, group: Any
) -> Iterator[Any]:
    ends: Any = end.pod if is_pod else end.node
    yield ends.is_of(group.sorts)
    yield from cluster_connection.has_address(end, self.is_ipv6, group)


def only_asks_about_the_allowed(patch: Patch) -> None:
    def meant(self: Any, intent: Intent) -> Any:
        services = self.connection.services_in(intent.services)
        return z3.And(self._src(intent), self._dst(intent), services)

    patch.setattr(intents._Judge, "_meant", meant)


def services_not_asked(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "services_in", lambda *_: YES)


def one_end_is_enough(patch: Patch) -> None:
    directions = {**intents.DIRECTIONS, Scope.END_TO_END: (Direction.INGRESS,)}
    patch.setattr(intents, "DIRECTIONS", directions)


def scopes_exchanged(patch: Patch) -> None:
    directions = {
        **intents.DIRECTIONS,
        Scope.INGRESS: (Direction.EGRESS,),
        Scope.EGRESS: (Direction.INGRESS,),
    }
    patch.setattr(intents, "DIRECTIONS", directions)


def builtin_is_asked(patch: Patch) -> None:
    patch.setattr(intents._Judge, "_in_question", lambda *_: YES)


def both_sides_forgotten(patch: Patch) -> None:
    patch.setattr(intents._Judge, "_on_both_sides", lambda *_: None)


def vacuous_holds(patch: Patch) -> None:
    patch.setattr(intents._Judge, "_vacuous", lambda *_: None)


def everything_is_decided(patch: Patch) -> None:
    patch.setattr(ConnectionTerms, "is_decided", lambda *_: YES)


MUTATIONS: list[Callable[[Patch], None]] = [
    a_pod_to_itself_is_decided,
    own_node_forgotten,
    every_node_is_the_own,
    own_node_settles_ingress_alone,
    neighbours_forgotten,
    neighbours_everywhere,
    ends_exchanged,
    one_address_two_ends,
    nothing_shared,
    outside_to_outside,
    named_ports_of_anybody,
    locality_forgotten,
    local_is_remote,
    excepts_forgotten,
    hosts_never_guarded,
    failsafe_ports_forgotten,
    pod_networks_forgotten,
    replicas_forgotten,
    held_addresses_are_free,
    declared_ports_are_free,
    places_are_free,
    only_asks_about_the_allowed,
    services_not_asked,
    one_end_is_enough,
    scopes_exchanged,
    builtin_is_asked,
    both_sides_forgotten,
    vacuous_holds,
    everything_is_decided,
]


@pytest.mark.parametrize("mutate", one_in(6, MUTATIONS), ids=lambda f: f.__name__)
def test_a_bug_in_the_encoding_is_noticed(
    mutate: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    mutate(monkeypatch)
    assert any(is_wrong(question) for question in QUESTIONS)


def is_wrong(question: Question) -> bool:
    try:
        question.check()
    except (AssertionError, InternalError):
        return True
    return False


def test_the_symbolic_connection_is_the_one_that_is_mutated() -> None:
    assert issubclass(Connection, ConnectionTerms)
    assert not any(is_wrong(question) for question in QUESTIONS)
