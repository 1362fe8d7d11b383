# SPDX-License-Identifier: Apache-2.0
"""Lemma 4: the per-policy tables mean their policies, for every signature that could exist.

The node folds these tables for endpoints that appear later. So each rule of the tables must match what
its rule of the Policy IR matches, with every selector, block and named port free (`rule_question.py`).
The frame around the rules (tiers, modes, order, subjects, isolation) must be the same.
"""

from collections.abc import Iterator

from policyc.ir.decision import DecisionIR, PolicyTable, TierTable
from policyc.ir.policy import Direction, Policy, PolicySet, Tier
from policyc.verifier.decision.outcome import (
    Broken,
    Obligation,
)
from policyc.verifier.decision.rule_question import rule_question

LEMMA = "unseen"


def unseen_obligations(policies: PolicySet, decision: DecisionIR) -> Iterator[Obligation | Broken]:
    """An obligation per rule, and a fault for each frame that differs."""
    if len(policies.tiers) != len(decision.tables):
        yield Broken(LEMMA, "the tables have other tiers than the policies")
        return
    for tier, table in zip(policies.tiers, decision.tables, strict=True):
        if _tier_frame(tier) != _tier_frame(table) or len(tier.policies) != len(table.policies):
            yield Broken(LEMMA, f"tier {tier.name} has another frame")
            return
        for policy, its_table in zip(tier.policies, table.policies, strict=True):
            yield from _policy(policy, its_table, decision)


def _tier_frame(tier: Tier | TierTable) -> tuple[object, ...]:
    return tier.name, tier.mode, tier.unmatched


def _policy(
    policy: Policy, table: PolicyTable, decision: DecisionIR
) -> Iterator[Obligation | Broken]:
    vocabulary = decision.atoms.vocabulary
    name = policy.title
    frame = (name, vocabulary.bit_of[policy.subject], policy.isolates, policy.origin)
    if frame != (table.name, table.subject, table.isolates, table.origin):
        yield Broken(LEMMA, f"{name} has another subject, isolation or place in the tables")
    for direction in Direction:
        rules, theirs = policy.rules(direction), table.rules(direction)
        if len(rules) != len(theirs):
            yield Broken(LEMMA, f"{name} has another number of {direction.value} rules")
            return
        for rule, its_table in zip(rules, theirs, strict=True):
            if rule.action is not its_table.action:
                yield Broken(LEMMA, f"{name} {rule.origin.path} has another action")
            what = f"{name} {rule.origin.path} matches other flows in the tables"
            question = rule_question(rule, its_table, vocabulary)
            yield Obligation(question, Broken(LEMMA, what, direction))
