# SPDX-License-Identifier: Apache-2.0
"""Check that the rule entries agree with the policies: status, messages and the node's folding use them.

Every id is a reserved rule, one rule of one policy, or one default deny, and no entry occurs twice.
Places (file, line, path) are compared too. An entry may occur again with notes: rules of its direction
that make notes, in the order of their ids.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.policy import Direction, PolicySet, Tier
from policyc.ir.spans import Origin
from policyc.ir.tables import RESERVED_RULES
from policyc.verifier.decision.outcome import Broken


def entry_faults(policies: PolicySet, decision: DecisionIR) -> Iterator[Broken]:
    """The faults of the entries. Needs tables of the same frame as the policies (`unseen`)."""
    if decision.rules[: len(RESERVED_RULES)] != RESERVED_RULES:
        yield _broken("the reserved rules are not in their place")
    if len(set(decision.rules)) != len(decision.rules):
        yield _broken("a rule entry stands twice")
    isolating = {tier.name: _isolating(tier) for tier in policies.tiers}
    named = set(range(len(RESERVED_RULES)))
    ids = {entry: rule_id for rule_id, entry in enumerate(decision.rules)}
    for rule_id, entry in _expected(policies, decision):
        named.add(rule_id)
        found = decision.rules[rule_id]
        if found != entry or found.origins != entry.origins:
            yield _broken(f"rule {rule_id} is not {entry.describe()}")
    for rule_id in range(len(decision.rules)):
        entry = decision.rules[rule_id]
        if entry.notes:
            if not _is_noted(entry, ids):
                yield _broken(f"rule {rule_id} is noted by what makes no notes on it")
        elif rule_id not in named and not _is_default_deny(entry, policies, isolating):
            yield _broken(f"rule {rule_id} is neither a rule of a policy nor a default deny")


def _is_noted(entry: RuleEntry, ids: Mapping[RuleEntry, int]) -> bool:
    """Whether it is an entry without its notes, and so is each note; all have their places."""
    found = {known: known for known in ids}
    parts = (entry.without_notes, *entry.notes)
    return (
        all(part in found and found[part].origins == part.origins for part in parts)
        and all(note.makes_note and not note.notes for note in entry.notes)
        and all(entry.direction in (None, note.direction) for note in entry.notes)
        and len({note.direction for note in entry.notes}) == 1
        and all(ids[one] < ids[other] for one, other in pairwise(entry.notes))
    )


def _expected(policies: PolicySet, decision: DecisionIR) -> Iterator[tuple[int, RuleEntry]]:
    """(id in the tables, expected entry) of every rule."""
    for tier, table in zip(policies.tiers, decision.tables, strict=True):
        for policy, its_table in zip(tier.policies, table.policies, strict=True):
            name = policy.title
            for d in Direction:
                pairs = zip(policy.rules(d), its_table.rules(d), strict=True)
                for index, (rule, in_table) in enumerate(pairs):
                    yield (
                        in_table.rule,
                        RuleEntry(
                            "rule",
                            rule.action,
                            tier.name,
                            d,
                            (name,),
                            index,
                            (rule.origin,),
                            rule.limit,
                            rule.log,
                        ),
                    )


Isolating = dict[tuple[str, Direction | None], tuple[int, Origin]]
"""(policy, direction in which it isolates) -> its position in the tier's order, and in its file."""


def _isolating(tier: Tier) -> Isolating:
    return {
        (policy.title, direction): (index, policy.origin)
        for index, policy in enumerate(tier.policies)
        for direction in policy.isolates
    }


def _is_default_deny(
    entry: RuleEntry, policies: PolicySet, isolating: Mapping[str, Isolating]
) -> bool:
    return entry.kind == "default-deny" and any(
        entry.tier == tier.name and _denies_in(entry, tier, isolating[tier.name])
        for tier in policies.tiers
    )


def _denies_in(entry: RuleEntry, tier: Tier, isolating: Isolating) -> bool:
    """Its policies are some of the tier's, in their order, and each isolates in its direction."""
    held = [isolating.get((name, entry.direction)) for name in entry.policies]
    found = [place for place in held if place is not None]
    return (
        bool(held)
        and len(found) == len(held)
        and entry.action is tier.unmatched
        and entry.action.is_deny
        and all(one[0] < other[0] for one, other in pairwise(found))
        and tuple(origin for _, origin in found) == entry.origins
    )


def _broken(words: str) -> Broken:
    return Broken("entries", words)
