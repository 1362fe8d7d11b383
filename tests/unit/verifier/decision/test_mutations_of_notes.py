# SPDX-License-Identifier: Apache-2.0
"""Rules that make notes: the right tables are proved, and tables that note anything else are refuted."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network

import pytest

from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR
from policyc.ir.partition import partition
from policyc.ir.peers import ANY_PEER, AddressPeer
from policyc.ir.policy import (
    Action,
    AnyService,
    Direction,
    Policy,
    PolicySet,
    PortRange,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.selectors import EndpointSelector
from policyc.ir.services import Protocol
from policyc.ir.spans import Origin, Span
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import (
    Proved,
    Refuted,
)

OFFICE = AddressPeer(ip_network("192.0.2.0/24"), ())


def at(line: int) -> Origin:
    return Origin(Span("p.yaml", line, 1), f"spec.rules.ingress[{line}]")


def tcp(lo: int, hi: int) -> PortRange:
    return PortRange(Protocol.TCP, lo, hi)


FIRST = Policy(
    "ExtendedPolicy", "", "first", EndpointSelector(None), frozenset({Direction.INGRESS}),
    (
        Rule(Action.LOG, (ANY_PEER,), (tcp(80, 90),), at(1)),
        Rule(Action.AUDIT, (OFFICE,), (AnyService(),), at(2)),
        Rule(Action.DENY, (OFFICE,), (tcp(85, 86),), at(3)),
        Rule(Action.PASS, (ANY_PEER,), (tcp(1, 88),), at(4), log=True),
    ),
    (), at(0),
)  # fmt: skip
LAST = replace(
    FIRST, name="last", ingress=(Rule(Action.ALLOW, (ANY_PEER,), (tcp(80, 80),), at(5)),)
)
POLICIES = PolicySet(
    tuple(
        Tier(name, TierMode.FIRST_MATCH, Action.DENY, (policy,))
        for name, policy in (("one", FIRST), ("two", LAST))
    )
)


def decided(policies: PolicySet = POLICIES) -> DecisionIR:
    return decide(policies, partition(vocabulary_of(policies), None))


def with_leaves(d: DecisionIR, change: Callable[[int], int]) -> DecisionIR:
    """Every rule diagram with other ids."""
    rules = {cell.rule for cell in d.cells}
    return replace(
        d,
        diagrams=tuple(
            tuple((lo, change(leaf)) for lo, leaf in diagram) if index in rules else diagram
            for index, diagram in enumerate(d.diagrams)
        ),
    )


def noted(d: DecisionIR) -> dict[int, int]:
    """Id with notes -> the id without."""
    ids = {entry: rule for rule, entry in enumerate(d.rules)}
    return {rule: ids[entry.without_notes] for entry, rule in ids.items() if entry.notes}


def forget_all_notes(d: DecisionIR) -> DecisionIR:
    return with_leaves(d, lambda leaf: noted(d).get(leaf, leaf))


def forget_one_note(d: DecisionIR) -> DecisionIR:
    """Of two notes, only the first."""
    ids = {entry: rule for rule, entry in enumerate(d.rules)}
    rule, entry = next((r, e) for e, r in ids.items() if len(e.notes) > 1)
    fewer = replace(entry, notes=entry.notes[:1])
    more = d if fewer in ids else replace(d, rules=(*d.rules, fewer))
    into = ids.get(fewer, len(d.rules))
    return with_leaves(more, lambda leaf: into if leaf == rule else leaf)


def note_what_nothing_notes(d: DecisionIR) -> DecisionIR:
    """The default of the last tier as if the first rule had been met, wherever it decides."""
    ids = {entry: rule for rule, entry in enumerate(d.rules)}
    of = {base: rule for rule, base in noted(d).items()}
    base = next(at for at in ids.values() if d.rules[at].kind == "default-deny" and at in of)
    return with_leaves(d, lambda leaf: of[base] if leaf == base else leaf)


def exchange_two_notes(d: DecisionIR) -> DecisionIR:
    """Log and audit exchange their notes."""
    log, audit = d.rules[2], d.rules[3]
    into = {log: audit, audit: log}
    rules = (
        replace(entry, notes=tuple(into.get(note, note) for note in entry.notes))
        for entry in d.rules
    )
    return replace(d, rules=tuple(rules))


def notes_out_of_order(d: DecisionIR) -> DecisionIR:
    return replace(
        d, rules=tuple(replace(entry, notes=tuple(reversed(entry.notes))) for entry in d.rules)
    )


def noted_by_a_rule_that_denies(d: DecisionIR) -> DecisionIR:
    extra = replace(d.rules[0], notes=(d.rules[4],))
    return replace(d, rules=(*d.rules, extra))


def log_of_a_rule_forgotten(d: DecisionIR) -> DecisionIR:
    quiet = (replace(entry, log=False) for entry in d.rules)
    return replace(d, rules=tuple(quiet))


def test_a_decision_with_the_notes_of_the_policies_is_proved() -> None:
    d = decided()
    assert isinstance(prove_decision(POLICIES, None, d), Proved)
    notes = {tuple(note.index for note in entry.notes) for entry in d.rules}
    assert {(), (0,), (1,), (3,), (0, 1), (0, 3), (1, 3), (0, 1, 3)} <= notes


@pytest.mark.parametrize(
    "mutate",
    [
        forget_all_notes,
        forget_one_note,
        note_what_nothing_notes,
        exchange_two_notes,
        notes_out_of_order,
        noted_by_a_rule_that_denies,
        log_of_a_rule_forgotten,
    ],
    ids=lambda mutate: mutate.__name__,
)
def test_a_decision_with_other_notes_is_refuted(
    mutate: Callable[[DecisionIR], DecisionIR],
) -> None:
    changed = mutate(decided())
    assert changed != decided()
    assert isinstance(prove_decision(POLICIES, None, changed), Refuted)
