# SPDX-License-Identifier: Apache-2.0
"""Deliberate corruptions of what trees of peers, nodes and own sides became: each is refuted.

Mutations of the placed tables are shown by a flow; of the tables that nodes fold, and of the vocabulary,
no flow of this universe need show them.
"""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, ip_network

import pytest

from policyc.ir.atoms import NodeColumn, Row
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR, TableRule
from policyc.ir.intervals import IntervalSet
from policyc.ir.lookup import entry_of
from policyc.ir.partition import partition
from policyc.ir.policy import (
    Action,
    AddressPeer,
    AllOf,
    AnyPeer,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    IcmpType,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Policy,
    PolicySet,
    PortRange,
    ProtocolNumber,
    Requirement,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.semantics import end_verdict
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import Endpoint, Node, Universe
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import (
    Proved,
    Refuted,
)
from policyc.verifier.decision.witness import find_witness


def app(*values: str) -> EndpointSelector:
    test = AttributeTest(Attribute.LABEL, Requirement("app", Operator.IN, values))
    return EndpointSelector(condition=test)


def zone(value: str) -> Condition:
    return AttributeTest(Attribute.NODE_LABEL, Requirement("zone", Operator.IN, (value,)))


def at(path: str, line: int) -> Origin:
    return Origin(Span("p.yaml", line, 1), path)


N1 = Node("n1", {"zone": "a"}, (IPv4Address("192.0.2.1"),))
N2 = Node("n2", {"zone": "b"}, (IPv4Address("192.0.2.2"),))


def pod(name: str, number: int, node: Node) -> Endpoint:
    address = IPv4Address(f"10.0.0.{number}")
    return Endpoint(
        "shop", name, {"app": name}, addresses=(address,), node=node.name, its_node=node
    )


RULES = (
    Rule(Action.DENY, (NodePeer(zone("a")),), (EveryPort(Protocol.TCP),), at("e[0]", 10)),
    Rule(Action.DENY, (NodePeer(where=Where.LOCAL),), (IcmpType(Kind.ICMP, 8),), at("e[1]", 20)),
    Rule(Action.PASS, (NodePeer(where=Where.REMOTE),), (ProtocolNumber(47),), at("e[2]", 30)),
    Rule(
        Action.ALLOW,
        (AllOf((AddressPeer(ip_network("10.0.0.0/24")), Not(EndpointPeer(app("db"))))),),
        (AnyService(),),
        at("e[3]", 40),
        except_ports=(PortRange(Protocol.TCP, 22, 22),),
    ),
    Rule(
        Action.REJECT,
        (AnyPeer(),),
        (AnyService(),),
        at("e[4]", 50),
        own=OneOf((EndpointPeer(app("web")), AddressPeer(ip_network("10.0.0.4/30")))),
    ),
)
POLICY = Policy("Test", "", "all", EndpointSelector(), frozenset(Direction), (), RULES, at("", 1))
POLICIES = PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.PASS, (POLICY,)),))
UNIVERSE = Universe(
    (pod("api", 5, N1), pod("db", 2, N2), pod("other", 9, N1), pod("web", 3, N2)), (N1, N2)
)


def decided(universe: Universe | None = UNIVERSE) -> DecisionIR:
    return decide(POLICIES, partition(vocabulary_of(POLICIES), universe))


def with_vocabulary(d: DecisionIR, **change: object) -> DecisionIR:
    vocabulary = replace(d.atoms.vocabulary, **change)  # type: ignore[arg-type]
    return decide(POLICIES, partition(vocabulary, UNIVERSE))


def with_rule(d: DecisionIR, index: int, change: Callable[[TableRule], TableRule]) -> DecisionIR:
    tier = d.tables[0]
    rules = list(tier.policies[0].egress)
    rules[index] = change(rules[index])
    policy = replace(tier.policies[0], egress=tuple(rules))
    return replace(d, tables=(replace(tier, policies=(policy,)),))


def exchanged(d: DecisionIR, change: Callable[[NodeColumn], NodeColumn]) -> DecisionIR:
    """Node columns exchange their signatures with those that `change` returns."""
    columns = [change(c) if isinstance(c, NodeColumn) else c for c in d.atoms.columns]
    return replace(d, atoms=replace(d.atoms, columns=tuple(columns)))


def near_is_far(d: DecisionIR) -> DecisionIR:
    return exchanged(d, lambda c: replace(c, is_local=not c.is_local))


def other_conditions(d: DecisionIR) -> DecisionIR:
    held = sorted({c.conditions for c in d.atoms.columns if isinstance(c, NodeColumn)})
    assert len(held) == 2
    return exchanged(d, lambda c: replace(c, conditions=held[1 - held.index(c.conditions)]))


def own_blocks_of_the_row_lost(d: DecisionIR) -> DecisionIR:
    rows = tuple(Row(r.bits | r.own4 << 20, r.named) for r in d.atoms.rows)
    return replace(d, atoms=replace(d.atoms, rows=rows))


def own_side_of_every_row(d: DecisionIR) -> DecisionIR:
    row_of = dict.fromkeys(d.atoms.row_of, d.atoms.row_of["shop/web"])
    return replace(d, atoms=replace(d.atoms, row_of=row_of))


def nodes_not_read(d: DecisionIR) -> DecisionIR:
    return with_vocabulary(d, reads_nodes=False)


def nearness_not_read(d: DecisionIR) -> DecisionIR:
    return with_vocabulary(d, reads_locality=False)


def own_blocks_not_read(d: DecisionIR) -> DecisionIR:
    return with_vocabulary(d, own_blocks=0)


def table_local_is_anywhere(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 1, lambda r: replace(r, peers=(("node", r.peers[0][1]),)))  # type: ignore[index]


def table_without_not(d: DecisionIR) -> DecisionIR:
    def positive(rule: TableRule) -> TableRule:
        block, other = rule.peers[0].parts  # type: ignore[index,union-attr]
        return replace(rule, peers=(AllOf((block, other.part)),))

    return with_rule(d, 3, positive)


def table_any_of_all(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 3, lambda r: replace(r, peers=(OneOf(r.peers[0].parts),)))  # type: ignore[index,union-attr]


def table_without_exception(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 3, lambda r: replace(r, except_services=()))


def table_without_own_side(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 4, lambda r: replace(r, own=None))


def table_own_side_on_the_other(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 4, lambda r: replace(r, own=None, peers=(r.own,)))  # type: ignore[arg-type]


def table_with_another_protocol(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 2, lambda r: replace(r, services=((5 << 16 | 50, 5 << 16 | 50),)))


def table_with_one_code_of_a_type(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 1, lambda r: replace(r, services=((3 << 16 | 8 << 8,) * 2,)))


def table_leaf_that_is_not_there(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 0, lambda r: replace(r, peers=(("node", 99),)))


def table_leaf_of_no_kind(d: DecisionIR) -> DecisionIR:
    return with_rule(d, 0, lambda r: replace(r, peers=(Not(("pod", 0)),)))


SHOWN = [own_side_of_every_row, table_without_not, table_any_of_all, table_without_exception,
         table_without_own_side, table_own_side_on_the_other, table_with_another_protocol,
         table_with_one_code_of_a_type, table_local_is_anywhere]  # fmt: skip
REFUTED = [near_is_far, other_conditions, own_blocks_of_the_row_lost, nodes_not_read,
           nearness_not_read, own_blocks_not_read, table_leaf_that_is_not_there,
           table_leaf_of_no_kind]  # fmt: skip


@pytest.mark.parametrize("universe", [UNIVERSE, None], ids=["cluster", "symbolic"])
def test_compiled_tables_are_proved(universe: Universe | None) -> None:
    assert isinstance(prove_decision(POLICIES, universe, decided(universe)), Proved)


@pytest.mark.parametrize("mutate", [*SHOWN, *REFUTED], ids=lambda f: f.__name__)
def test_a_corrupted_decision_is_refuted(mutate: Callable[[DecisionIR], DecisionIR]) -> None:
    wrong = mutate(decided())
    outcome = prove_decision(POLICIES, UNIVERSE, wrong)
    assert isinstance(outcome, Refuted)
    witness = find_witness(POLICIES, UNIVERSE, wrong, outcome.broken)
    if mutate in SHOWN:
        assert witness is not None, outcome.broken
        again = entry_of(
            end_verdict(
                POLICIES, Direction.EGRESS, witness.flow.src, witness.flow.dst, witness.flow
            )
        )
        assert witness.seen != again == witness.wanted


@pytest.mark.parametrize(
    "change",
    [
        {"hosts": AllOf(())},
        {"egress": (replace(RULES[0], action=Action.LOG), *RULES[1:])},
        {"egress": (replace(RULES[0], source_ports=IntervalSet.of([(1, 2)])), *RULES[1:])},
    ],
    ids=["hosts", "log", "source-ports"],
)
def test_a_policy_beyond_the_tables_is_refuted(change: dict[str, object]) -> None:
    tier = POLICIES.tiers[0]
    richer = PolicySet((replace(tier, policies=(replace(POLICY, **change),)),))  # type: ignore[arg-type]
    assert isinstance(prove_decision(richer, UNIVERSE, decided()), Refuted)
