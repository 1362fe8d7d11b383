# SPDX-License-Identifier: Apache-2.0
"""Effects of rules (what rules ask of the datapath beside allow and deny), by rule id.

Few rules have any.

An audit note needs no effect in the datapath: a decision with notes has a rule id of its own, and the
datapath counts ids.
"""

from collections.abc import Iterable, Sequence
from enum import IntFlag

from policyc.ir.decision import RuleEntry
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Action

SECOND = 1_000_000_000
"""One second in nanoseconds."""


class EffectBits(IntFlag):
    """The features that a program needs: PC_EFFECT_* of runtime/datapath/effects.h."""

    NONE = 0
    REJECT = 1
    LIMIT = 2
    LOG = 4
    OWN_NODE = 8


@dataclass(frozen=True, slots=True)
class RuleEffects:
    """The effects of one rule. A limit allows one connection `every` so many nanoseconds.

    A connection may come up to `slack` nanoseconds before it is due; `slack` follows from the burst.
    `rule` is the id under which connections are counted: the same id whatever was noted before the rule
    decided.
    """

    bits: EffectBits
    every: int = 0
    slack: int = 0
    rule: int = 0


def effects_of(rules: Sequence[RuleEntry]) -> dict[int, RuleEffects]:
    """Rule id -> effects, for the rules that have any."""
    ids = {entry: rule for rule, entry in enumerate(rules) if entry.limit is not None}
    found = {rule: _effects(entry, ids) for rule, entry in enumerate(rules)}
    return {rule: effects for rule, effects in found.items() if effects.bits}


def _effects(entry: RuleEntry, ids: dict[RuleEntry, int]) -> RuleEffects:
    bits = EffectBits.NONE
    if entry.log or any(each.log or each.action is Action.LOG for each in (entry, *entry.notes)):
        bits |= EffectBits.LOG
    if entry.limit is not None:
        every = -(-SECOND // entry.limit.per_second)  # never more than the rule allows
        slack = every * (entry.limit.burst - 1)
        return RuleEffects(bits | EffectBits.LIMIT, every, slack, ids[entry.without_notes])
    if entry.action is Action.REJECT:
        bits |= EffectBits.REJECT
    if entry.action is Action.DENY_OWN_NODE:
        bits |= EffectBits.OWN_NODE
    return RuleEffects(bits)


def bits_of(effects: Iterable[RuleEffects]) -> EffectBits:
    """The union of the features that these rules need."""
    bits = EffectBits.NONE
    for each in effects:
        bits |= each.bits
    return bits
