# SPDX-License-Identifier: Apache-2.0
"""Questions whose ports are renamed by their order are violated by the same keys, under other names."""

import random
from dataclasses import replace

import pytest
import z3

from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR, leaf_of
from policyc.ir.errors import InternalError
from policyc.ir.partition import partition
from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    Action,
    IcmpType,
    NamedPort,
    PolicySet,
    PortRange,
    Ports,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import Kind, Protocol
from policyc.ir.universe import ContainerPort, Universe
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.decision.cell_question import (
    ALLOW,
    CellQuestion,
)
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import (
    Broken,
    Obligation,
    Proved,
    Refuted,
    discharge,
)
from policyc.verifier.decision.port_order import (
    NOT_PORTS,
    PortOrder,
    in_order,
    original,
)
from policyc.verifier.decision.rule_question import RuleQuestion
from policyc.verifier.decision.service_questions import (
    Terms,
    asked_words,
    declared,
)
from policyc.verifier.smt.terms import KIND_OF_PROTOCOL
from tests.property.cases import random_case
from tests.slices import one_in
from tests.unit.verifier.decision import question_cases as cases
from tests.unit.verifier.decision.small_cluster import (
    POLICIES,
    UNIVERSE,
    WEB,
    WEB_IN,
    WEB_OUT,
)

pytestmark = pytest.mark.thorough


def random_question(seed: int) -> cases.ServiceQuestion:
    """Half of them are right; some of the others are, too."""
    rng = random.Random(seed)
    question = rng.choice((cases.random_cell, cases.random_rule))(rng)
    return rng.choice((question, cases.corrupted(question, rng)))


def z3_model(question: cases.ServiceQuestion, terms: Terms | None = None) -> z3.ModelRef | None:
    """A model of the question as it is given."""
    solver = z3.SolverFor("QF_BV")
    solver.add(question.violated(terms or Terms()))
    result = solver.check()
    assert result != z3.unknown
    return solver.model() if result == z3.sat else None


@pytest.mark.parametrize("first", one_in(2, range(0, 1000, 100)))
def test_keys_of_two_equal_questions_correspond(first: int) -> None:
    for seed in range(first, first + 100):
        question = random_question(seed)
        renamed, places = in_order(question)
        assert all(0 <= place <= cut for cut, place in places.items())
        assert list(cases.truths_of(renamed)) == list(cases.truths_of(question))
        for truth in cases.truths_of(question):
            for key in cases.keys_of(renamed):
                like = original(key, places)
                assert like >> 16 == key >> 16
                assert cases.is_violated(renamed, key, truth) == cases.is_violated(
                    question, like, truth
                ), (seed, key, like)
        assert cases.can_be_violated(renamed) == cases.can_be_violated(question), seed


@pytest.mark.parametrize("first", one_in(2, range(1000, 1400, 100)))
def test_the_solver_agrees_before_and_after_and_its_key_is_one_of_the_original(first: int) -> None:
    found = set()
    for seed in range(first, first + 100):
        question = random_question(seed)
        renamed, places = in_order(question)
        is_wrong = cases.can_be_violated(question)
        found.add(is_wrong)
        model = z3_model(renamed)
        assert (z3_model(question) is not None) == (model is not None) == is_wrong, seed
        if model is not None:
            key = original(model.eval(Terms().key, model_completion=True).as_long(), places)
            assert any(cases.is_violated(question, key, t) for t in cases.truths_of(question)), seed
    assert found == {False, True}


@pytest.mark.parametrize("first", one_in(3, range(0, 150, 50)))
def test_a_step_that_is_off_by_one_is_refuted_at_its_key(first: int) -> None:
    for seed in range(first, first + 50):
        for wrong in cases.moved_steps(cases.random_cell(random.Random(seed))):
            outcome = discharge([Obligation(wrong, Broken("cells", "off by one"))])
            assert isinstance(outcome, Refuted)
            assert outcome.broken.key is not None
            assert cases.is_violated(wrong, outcome.broken.key, {}), (seed, wrong)


def test_a_step_that_is_off_by_one_stays_wrong() -> None:
    for seed in range(400):
        for wrong in cases.moved_steps(cases.random_cell(random.Random(seed))):
            assert cases.can_be_violated(in_order(wrong)[0]), (seed, wrong)


def test_shared_parts_of_questions_are_computed_once_without_effect() -> None:
    order, terms = PortOrder(), Terms()
    for seed in range(400):
        question = random_question(seed)
        renamed, places = order.renamed(question)
        assert (renamed, places) == in_order(question), seed
        assert (z3_model(renamed, terms) is not None) == cases.can_be_violated(question), seed


def test_renaming_is_idempotent() -> None:
    for seed in range(300):
        renamed, _ = in_order(random_question(seed))
        assert in_order(renamed)[0] == renamed


def cell(*ports: Ports, allowed: tuple[tuple[int, int], ...]) -> CellQuestion:
    """One rule under a default deny, and the runs of keys that the cell allows."""
    steps = [(0, 0)]
    for lo, hi in allowed:
        steps = [step for step in steps if step[0] != lo] + [(lo, 1), (hi + 1, 0)]
    asked = asked_words(ports, (), lambda port: declared(port.protocol, (9090, 9091, 65535)))
    rule = tuple((lo, 2 if leaf else 1) for lo, leaf in steps)
    return CellQuestion(((1, ((asked, ALLOW, 2),)),), tuple(steps), rule)


def test_other_numbers_in_the_same_order_are_the_same_question() -> None:
    def question(one: int, lo: int, hi: int) -> cases.ServiceQuestion:
        ports = PortRange(Protocol.TCP, one, one), PortRange(Protocol.TCP, lo, hi)
        return in_order(cell(*ports, allowed=((one, one), (lo, hi))))[0]

    assert question(80, 8000, 8080) == question(1, 3, 4) == question(443, 65533, 65534)
    assert question(80, 81, 90) != question(80, 82, 90)  # they touch, or there is a port between
    assert question(80, 82, 90) != question(80, 82, 65535)  # the last port has none behind it


def test_the_last_ports_stay_apart_from_the_end_of_their_kind() -> None:
    for number in (65534, 65535):
        port = PortRange(Protocol.UDP, number, number)
        key = Kind.UDP << 16 | number
        right = cell(port, allowed=((key, key),))
        assert discharge([Obligation(right, Broken("cells", ""))]) == Proved(1)
        for wrong in ((key - 1, key), (key, key + 1)):
            outcome = discharge([Obligation(cell(port, allowed=(wrong,)), Broken("cells", ""))])
            assert isinstance(outcome, Refuted)
            assert outcome.broken.key == (wrong[0] if wrong[0] != key else key + 1)


def test_a_named_port_is_the_numbers_that_are_declared() -> None:
    named = NamedPort(Protocol.TCP, "http")
    right = cell(named, allowed=((9090, 9091), (65535, 65535)))
    same = cell(
        PortRange(Protocol.TCP, 65535, 65535),
        PortRange(Protocol.TCP, 9091, 9091),
        PortRange(Protocol.TCP, 9090, 9090),
        PortRange(Protocol.TCP, 9090, 9090),
        allowed=((9090, 9091), (65535, 65535)),
    )
    assert right == same
    assert discharge([Obligation(right, Broken("cells", ""))]) == Proved(1)
    wrong = cell(named, allowed=((9090, 9092), (65535, 65535)))
    outcome = discharge([Obligation(wrong, Broken("cells", ""))])
    assert isinstance(outcome, Refuted)
    assert outcome.broken.key == 9092


def test_icmp_and_other_protocols_keep_their_numbers() -> None:
    first = Kind.ICMP << 16 | 8 << 8
    question = cell(IcmpType(Kind.ICMP, 8), allowed=((first, first + 255),))
    assert in_order(question)[0] == question
    assert all(kind << 16 < NOT_PORTS for kind in KIND_OF_PROTOCOL.values())
    assert all(kind << 16 >= NOT_PORTS for kind in set(Kind) - set(KIND_OF_PROTOCOL.values()))


@pytest.mark.parametrize("bad", [(80, 65536), (-1, 80), (65536 + 80, 65536 + 81)])
def test_invalid_port_numbers_are_an_internal_error(bad: tuple[int, int]) -> None:
    with pytest.raises(InternalError, match="got past the front end"):
        in_order(cell(PortRange(Protocol.TCP, *bad), allowed=((80, 80),)))
    rule = RuleQuestion((), (), ((), ()), (), (), (("keys", 0, cases.LAST + 1),), ())
    with pytest.raises(InternalError, match="services that there are not"):
        in_order(rule)
    with pytest.raises(InternalError, match="no port entry"):
        in_order(replace(rule, table_services=(("source", 80),)))


class Remembered(set[bytes]):
    """A ledger in memory."""

    def has(self, digest: bytes) -> bool:
        return digest in self


def rule_for(rule: Rule, *ports: Ports) -> Rule:
    return replace(rule, ports=ports)


def policies(web: int, metrics_to: int = 8100) -> PolicySet:
    """The shop, with another port of web."""
    ports = PortRange(Protocol.TCP, web, metrics_to), *WEB_IN.ports[1:]
    ingress = rule_for(WEB_IN, *ports), *WEB.ingress[1:]
    egress = (rule_for(WEB_OUT, *WEB_OUT.ports, PortRange(Protocol.TCP, web, web)),)
    tier = POLICIES.tiers[0]
    changed = tuple(
        replace(p, ingress=ingress, egress=egress) if p.name == "web" else p for p in tier.policies
    )
    return PolicySet((Tier(NETWORK_POLICY_TIER, TierMode.DENY_WINS, Action.DENY, changed),))


def tables_of(given: PolicySet, universe: Universe = UNIVERSE) -> DecisionIR:
    return decide(given, partition(vocabulary_of(given), universe))


def test_another_port_needs_no_new_query() -> None:
    ledger = Remembered()
    first = policies(8000)
    proved = prove_decision(first, UNIVERSE, tables_of(first), ledger=ledger)
    before = set(ledger)
    assert isinstance(proved, Proved)
    assert proved.obligations > len(before) > 0
    for other in (policies(8001), policies(6000, 6001), policies(8099), policies(8100)):
        assert prove_decision(other, UNIVERSE, tables_of(other), ledger=ledger) == proved
        assert ledger == before
    over = policies(8000, 9090)  # the range ends with the number of a named port
    assert isinstance(prove_decision(over, UNIVERSE, tables_of(over), ledger=ledger), Proved)
    assert not ledger <= before


def test_another_number_of_a_named_port_needs_no_new_query() -> None:
    ledger = Remembered()
    given = policies(8000)
    prove_decision(given, UNIVERSE, tables_of(given), ledger=ledger)
    before = set(ledger)
    moved = Universe(
        tuple(
            replace(e, ports=(ContainerPort("metrics", "TCP", 9191),)) if e.ports else e
            for e in UNIVERSE.endpoints
            if e.name != "db"
        )
        + tuple(e for e in UNIVERSE.endpoints if e.name == "db")
    )
    decision = tables_of(given, moved)
    assert isinstance(prove_decision(given, moved, decision, ledger=ledger), Proved)
    assert ledger == before


@pytest.mark.parametrize("seed", range(24))
def test_no_ledger_hides_a_table_that_is_off_by_one(seed: int) -> None:
    case = random_case(random.Random(seed), max_policies=4, max_pods=4)
    decision = tables_of(case.policies, case.universe)
    ledger = Remembered()
    assert isinstance(prove_decision(case.policies, case.universe, decision, ledger=ledger), Proved)
    for index in sorted({index for cell in decision.cells for index in (cell.action, cell.rule)}):
        right = decision.diagrams[index]
        for moved in cases.moved_by_one(right):
            diagrams = list(decision.diagrams)
            diagrams[index] = moved
            wrong = replace(decision, diagrams=tuple(diagrams))
            outcome = prove_decision(case.policies, case.universe, wrong, ledger=ledger)
            assert isinstance(outcome, Refuted)
            steps = {key for key, _ in (*right, *moved)}
            differs = [key for key in steps if leaf_of(right, key) != leaf_of(moved, key)]
            assert [outcome.broken.key] == differs
