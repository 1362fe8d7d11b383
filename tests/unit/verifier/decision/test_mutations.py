# SPDX-License-Identifier: Apache-2.0
"""A Decision IR that is wrong is refuted, with a witness that the reference semantics confirms."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from policyc.ir.atoms import Atoms, EndpointColumn, Row
from policyc.ir.decide import decide
from policyc.ir.decision import Cell, DecisionIR, PolicyTable, RuleEntry
from policyc.ir.lookup import entry_of
from policyc.ir.partition import partition
from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    Action,
    Direction,
)
from policyc.ir.semantics import end_verdict
from policyc.ir.universe import Universe
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import (
    Proved,
    Refuted,
)
from policyc.verifier.decision.witness import find_witness
from tests.property.cases import random_case
from tests.unit.verifier.decision.small_cluster import (
    DB,
    POLICIES,
    UNIVERSE,
    at,
)


def decided() -> DecisionIR:
    return decide(POLICIES, partition(vocabulary_of(POLICIES), UNIVERSE))


def with_diagrams(decision: DecisionIR, change: Callable[[int, tuple], tuple]) -> DecisionIR:  # type: ignore[type-arg]
    return replace(decision, diagrams=tuple(change(i, d) for i, d in enumerate(decision.diagrams)))


def longest_action(decision: DecisionIR) -> int:
    return max(decision.action_diagrams, key=lambda i: len(decision.diagrams[i]))


def with_atoms(decision: DecisionIR, change: Callable[[Atoms], Atoms]) -> DecisionIR:
    return replace(decision, atoms=change(decision.atoms))


def web_row(decision: DecisionIR) -> int:
    return decision.atoms.row_of["shop/web"]


def with_cell(
    decision: DecisionIR, direction: Direction, change: Callable[[list[int]], None]
) -> DecisionIR:
    rows = [list(row) for row in decision.table(direction)]
    change(rows[web_row(decision)])
    table = tuple(tuple(row) for row in rows)
    return replace(decision, **{direction.value: table})


def column_of(decision: DecisionIR, name: str) -> int:
    endpoint = next(e for e in UNIVERSE.endpoints if e.name == name)
    column = decision.atoms.classifier.column(endpoint, 4)
    assert column is not None
    return decision.atoms.column_index[column]


def flip_an_action(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(
        d, lambda i, g: tuple((lo, 1 - leaf) for lo, leaf in g) if i == target else g
    )


def widen_a_range(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(
        d, lambda i, g: (g[0], (g[1][0] - 1, g[1][1]), *g[2:]) if i == target else g
    )


def narrow_a_range(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(
        d, lambda i, g: (g[0], (g[1][0] + 1, g[1][1]), *g[2:]) if i == target else g
    )


def truncate_a_diagram(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(d, lambda i, g: g[:-1] if i == target else g)


def another_rule_id(d: DecisionIR) -> DecisionIR:
    rules = {cell.rule for cell in d.cells}
    return with_diagrams(
        d, lambda i, g: tuple((lo, 2 if leaf == 3 else 3 if leaf == 2 else leaf) for lo, leaf in g)
        if i in rules and len(g) > 1 else g,
    )  # fmt: skip


def swap_two_columns(d: DecisionIR) -> DecisionIR:
    a, b = column_of(d, "gateway"), column_of(d, "other")

    def swap(row: list[int]) -> None:
        row[a], row[b] = row[b], row[a]

    return with_cell(d, Direction.INGRESS, swap)


def forget_a_rule(d: DecisionIR) -> DecisionIR:
    a, b = column_of(d, "admin"), column_of(d, "other")
    return with_cell(d, Direction.INGRESS, lambda row: row.__setitem__(a, row[b]))


def open_an_egress_cell(d: DecisionIR) -> DecisionIR:
    free = d.cells.index(next(c for c in d.cells if d.diagrams[c.rule] == ((0, 0),)))
    return with_cell(d, Direction.EGRESS, lambda row: row.__setitem__(column_of(d, "other"), free))


def swap_ingress_and_egress(d: DecisionIR) -> DecisionIR:
    return replace(d, ingress=d.egress, egress=d.ingress)


def swap_two_rows(d: DecisionIR) -> DecisionIR:
    rows = list(d.ingress)
    a, b = web_row(d), d.atoms.row_of["shop/other"]
    rows[a], rows[b] = rows[b], rows[a]
    return replace(d, ingress=tuple(rows))


def swap_the_layers(d: DecisionIR) -> DecisionIR:
    return replace(d, cells=tuple(Cell(c.rule, c.action) for c in d.cells))


def misplace_an_endpoint(d: DecisionIR) -> DecisionIR:
    moved = {**d.atoms.row_of, "shop/web": d.atoms.row_of["shop/other"]}
    return with_atoms(d, lambda atoms: replace(atoms, row_of=moved))


def shift_an_address_run(d: DecisionIR) -> DecisionIR:
    def shift(atoms: Atoms) -> Atoms:
        four = atoms.classifier.addresses[4]
        starts = (*four.starts[:-1], four.starts[-1] + 1)
        addresses = {**atoms.classifier.addresses, 4: replace(four, starts=starts)}
        return replace(atoms, classifier=replace(atoms.classifier, addresses=addresses))

    return with_atoms(d, shift)


def lose_an_except(d: DecisionIR) -> DecisionIR:
    def lose(atoms: Atoms) -> Atoms:
        four = atoms.classifier.addresses[4]
        runs = (*four.atoms[:2], four.atoms[1], *four.atoms[3:])
        addresses = {**atoms.classifier.addresses, 4: replace(four, atoms=runs)}
        return replace(atoms, classifier=replace(atoms.classifier, addresses=addresses))

    return with_atoms(d, lose)


def wrong_row_signature(d: DecisionIR) -> DecisionIR:
    def change(atoms: Atoms) -> Atoms:
        rows = tuple(Row(r.bits ^ 1, r.named) for r in atoms.rows)
        return replace(atoms, rows=rows)

    return with_atoms(d, change)


def lose_a_named_port(d: DecisionIR) -> DecisionIR:
    def change(atoms: Atoms) -> Atoms:
        columns = tuple(
            replace(c, named=()) if isinstance(c, EndpointColumn) else c for c in atoms.columns
        )
        return replace(atoms, columns=columns)

    return with_atoms(d, change)


def with_table(d: DecisionIR, change: Callable[[PolicyTable], PolicyTable]) -> DecisionIR:
    tier = d.tables[0]
    policies = tuple(change(p) if p.name == "shop/web" else p for p in tier.policies)
    return replace(d, tables=(replace(tier, policies=policies),))


def table_without_isolation(d: DecisionIR) -> DecisionIR:
    return with_table(d, lambda p: replace(p, isolates=frozenset({Direction.EGRESS})))


def table_with_a_wider_rule(d: DecisionIR) -> DecisionIR:
    return with_table(
        d, lambda p: replace(p, ingress=(replace(p.ingress[0], services=None), *p.ingress[1:]))
    )


def table_with_another_peer(d: DecisionIR) -> DecisionIR:
    return with_table(
        d, lambda p: replace(p, ingress=(replace(p.ingress[0], peers=None), *p.ingress[1:]))
    )


def table_with_another_subject(d: DecisionIR) -> DecisionIR:
    return with_table(d, lambda p: replace(p, subject=d.tables[0].policies[0].subject))


def masks_forgotten(d: DecisionIR) -> DecisionIR:
    vocabulary = replace(d.atoms.vocabulary, subject_bits=0)
    return decide(POLICIES, partition(vocabulary, UNIVERSE))


def peer_mask_forgotten(d: DecisionIR) -> DecisionIR:
    vocabulary = replace(d.atoms.vocabulary, peer_bits=0)
    return decide(POLICIES, partition(vocabulary, UNIVERSE))


def with_addresses(d: DecisionIR, **change: object) -> DecisionIR:
    def changed(atoms: Atoms) -> Atoms:
        four = replace(atoms.classifier.addresses[4], **change)  # type: ignore[arg-type]
        addresses = {**atoms.classifier.addresses, 4: four}
        return replace(atoms, classifier=replace(atoms.classifier, addresses=addresses))

    return with_atoms(d, changed)


def run_past_the_last_address(d: DecisionIR) -> DecisionIR:
    four = d.atoms.classifier.addresses[4]
    return with_addresses(d, starts=(*four.starts[:-1], four.starts[-1] + 2**32))


def atom_in_a_block_that_is_not_there(d: DecisionIR) -> DecisionIR:
    four = d.atoms.classifier.addresses[4]
    return with_addresses(d, blocks=tuple(mask | 1 << 9 for mask in four.blocks))


def step_that_wraps(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(
        d, lambda i, g: (*g[:-1], (g[-1][0] + 2**19, g[-1][1])) if i == target else g
    )


def steps_out_of_order(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(d, lambda i, g: (g[0], *reversed(g[1:])) if i == target else g)


def diagram_that_starts_late(d: DecisionIR) -> DecisionIR:
    target = longest_action(d)
    return with_diagrams(d, lambda i, g: ((1, g[0][1]), *g[1:]) if i == target else g)


def negative_diagram(d: DecisionIR) -> DecisionIR:
    cells = tuple(replace(c, action=c.action - len(d.diagrams)) for c in d.cells)
    return replace(d, cells=cells)


def rule_leaf_that_wraps(d: DecisionIR) -> DecisionIR:
    rules = {cell.rule for cell in d.cells}
    return with_diagrams(
        d,
        lambda i, g: (
            tuple((lo, leaf + 2**32) for lo, leaf in g) if i in rules and len(g) > 1 else g
        ),
    )


def lost_address_column(d: DecisionIR) -> DecisionIR:
    def change(atoms: Atoms) -> Atoms:
        return replace(atoms, columns=atoms.columns[1:])

    tables = {x.value: tuple(row[1:] for row in d.table(x)) for x in Direction}
    return replace(with_atoms(d, change), **tables)


def negative_row_bits(d: DecisionIR) -> DecisionIR:
    def change(atoms: Atoms) -> Atoms:
        return replace(atoms, rows=(Row(-1), *atoms.rows[1:]))

    return with_atoms(d, change)


def table_service_that_wraps(d: DecisionIR) -> DecisionIR:
    wide = ((80, 80 + 2**19),)
    return with_table(
        d, lambda p: replace(p, ingress=(replace(p.ingress[0], services=wide), *p.ingress[1:]))
    )


def with_entry(d: DecisionIR, rule: int, **change: object) -> DecisionIR:
    rules = list(d.rules)
    rules[rule] = replace(rules[rule], **change)  # type: ignore[arg-type]
    return replace(d, rules=tuple(rules))


def default_deny_that_allows(d: DecisionIR) -> DecisionIR:
    extra = RuleEntry(
        "default-deny", Action.ALLOW, NETWORK_POLICY_TIER, Direction.INGRESS, ("shop/db",),
        origins=(DB.origin,),
    )  # fmt: skip
    return replace(d, rules=(*d.rules, extra))


def entry_with_another_line(d: DecisionIR) -> DecisionIR:
    return with_entry(d, 2, origins=(at("spec.ingress[0]", 999),))


def entry_with_another_action(d: DecisionIR) -> DecisionIR:
    return with_entry(d, 3, action=Action.DENY)


def reserved_rules_exchanged(d: DecisionIR) -> DecisionIR:
    return replace(d, rules=(d.rules[1], d.rules[0], *d.rules[2:]))


MALFORMED = [
    masks_forgotten,
    peer_mask_forgotten,
    run_past_the_last_address,
    atom_in_a_block_that_is_not_there,
    step_that_wraps,
    steps_out_of_order,
    diagram_that_starts_late,
    negative_diagram,
    rule_leaf_that_wraps,
    lost_address_column,
    negative_row_bits,
    table_service_that_wraps,
    default_deny_that_allows,
    entry_with_another_line,
    entry_with_another_action,
    reserved_rules_exchanged,
]
"""What no flow of this universe need show: form, numbers that would wrap, and what only nodes read."""

MUTATIONS = [
    flip_an_action,
    widen_a_range,
    narrow_a_range,
    truncate_a_diagram,
    another_rule_id,
    swap_two_columns,
    forget_a_rule,
    open_an_egress_cell,
    swap_ingress_and_egress,
    swap_two_rows,
    swap_the_layers,
    misplace_an_endpoint,
    shift_an_address_run,
    lose_an_except,
    wrong_row_signature,
    lose_a_named_port,
    table_without_isolation,
    table_with_a_wider_rule,
    table_with_another_peer,
    table_with_another_subject,
]


def test_compiled_tables_are_proved() -> None:
    outcome = prove_decision(POLICIES, UNIVERSE, decided())
    assert isinstance(outcome, Proved)
    assert outcome.obligations > 10


def test_signatures_alone_are_proved() -> None:
    decision = decide(POLICIES, partition(vocabulary_of(POLICIES), None))
    assert isinstance(prove_decision(POLICIES, None, decision), Proved)


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda f: f.__name__)
def test_a_corrupted_decision_is_refuted_with_a_confirmed_witness(
    mutate: Callable[[DecisionIR], DecisionIR],
) -> None:
    wrong = mutate(decided())
    outcome = prove_decision(POLICIES, UNIVERSE, wrong)
    assert isinstance(outcome, Refuted)
    witness = find_witness(POLICIES, UNIVERSE, wrong, outcome.broken)
    assert witness is not None, outcome.broken
    subject, peer = witness.flow.src, witness.flow.dst
    if witness.direction is Direction.INGRESS:
        subject, peer = peer, subject
    again = entry_of(end_verdict(POLICIES, witness.direction, subject, peer, witness.flow))
    assert again == witness.wanted
    assert witness.seen != again


@pytest.mark.parametrize("universe", [UNIVERSE, None], ids=["cluster", "symbolic"])
@pytest.mark.parametrize("mutate", MALFORMED, ids=lambda f: f.__name__)
def test_a_malformed_decision_is_refuted(
    mutate: Callable[[DecisionIR], DecisionIR], universe: Universe | None
) -> None:
    wrong = mutate(decided())
    outcome = prove_decision(POLICIES, universe, wrong)
    assert isinstance(outcome, Refuted)
    find_witness(POLICIES, universe, wrong, outcome.broken)  # finds one or not, and never fails


@pytest.mark.parametrize("seed", range(25))
def test_random_policy_sets_are_proved(seed: int) -> None:
    case = random_case(random.Random(seed))
    decision = decide(case.policies, partition(vocabulary_of(case.policies), case.universe))
    assert isinstance(prove_decision(case.policies, case.universe, decision), Proved)
