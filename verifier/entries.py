# SPDX-License-Identifier: Apache-2.0
"""Rule entries say what the policies say: status, messages and the node's own folding believe them.

Every id is a reserved rule, one rule of one policy, or one default deny, and nothing stands twice;
places (file, line, path) are compared too.
"""

from collections.abc import Iterator

from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.policy import Direction, PolicySet, Tier
from policyc.ir.tables import RESERVED_RULES
from policyc.verifier.outcome import Broken


def entry_faults(policies: PolicySet, decision: DecisionIR) -> Iterator[Broken]:
    """What is wrong with the entries. Needs tables of the same frame as the policies (`unseen`)."""
    if decision.rules[: len(RESERVED_RULES)] != RESERVED_RULES:
        yield _broken("the reserved rules are not in their place")
    if len(set(decision.rules)) != len(decision.rules):
        yield _broken("a rule entry stands twice")
    named = set(range(len(RESERVED_RULES)))
    for rule_id, entry in _expected(policies, decision):
        named.add(rule_id)
        found = decision.rules[rule_id]
        if found != entry or found.origins != entry.origins:
            yield _broken(f"rule {rule_id} is not {entry.describe()}")
    for rule_id in range(len(decision.rules)):
        if rule_id not in named and not _is_default_deny(decision.rules[rule_id], policies):
            yield _broken(f"rule {rule_id} is neither a rule of a policy nor a default deny")


def _expected(policies: PolicySet, decision: DecisionIR) -> Iterator[tuple[int, RuleEntry]]:
    """(id in the tables, what its entry must be) of every rule."""
    for tier, table in zip(policies.tiers, decision.tables, strict=True):
        for policy, its_table in zip(tier.policies, table.policies, strict=True):
            name = policy.title
            for d in Direction:
                pairs = zip(policy.rules(d), its_table.rules(d), strict=True)
                for index, (rule, in_table) in enumerate(pairs):
                    yield (
                        in_table.rule,
                        RuleEntry(
                            "rule", rule.action, tier.name, d, (name,), index, (rule.origin,)
                        ),
                    )


def _is_default_deny(entry: RuleEntry, policies: PolicySet) -> bool:
    return entry.kind == "default-deny" and any(
        entry.tier == tier.name and _denies_in(entry, tier) for tier in policies.tiers
    )


def _denies_in(entry: RuleEntry, tier: Tier) -> bool:
    """Its policies are some of the tier's, in their order, and each isolates in its direction."""
    isolating = [p for p in tier.policies if entry.direction in p.isolates]
    held = [p for p in isolating if p.title in entry.policies]
    return (
        bool(held)
        and entry.action is tier.unmatched
        and entry.action.is_deny
        and tuple(p.title for p in held) == entry.policies
        and tuple(p.origin for p in held) == entry.origins
    )


def _broken(words: str) -> Broken:
    return Broken("entries", words)
