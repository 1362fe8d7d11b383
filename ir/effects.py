# SPDX-License-Identifier: Apache-2.0
"""What rules ask the datapath for beside allow and deny, by rule id: few rules ask for anything."""

from collections.abc import Iterable, Sequence
from enum import IntFlag

from policyc.ir.classes import dataclass
from policyc.ir.decision import RuleEntry
from policyc.ir.policy import Action


class EffectBits(IntFlag):
    """What a program must be able to do: PC_EFFECT_* of runtime/datapath/effects.h."""

    NONE = 0
    REJECT = 1


@dataclass(frozen=True, slots=True)
class RuleEffects:
    """What one rule asks for."""

    bits: EffectBits


def effects_of(rules: Sequence[RuleEntry]) -> dict[int, RuleEffects]:
    """Rule id -> what the rule asks for, of the rules that ask for anything."""
    found = {rule: _effects(entry) for rule, entry in enumerate(rules)}
    return {rule: effects for rule, effects in found.items() if effects.bits}


def _effects(entry: RuleEntry) -> RuleEffects:
    bits = EffectBits.REJECT if entry.action is Action.REJECT else EffectBits.NONE
    return RuleEffects(bits)


def bits_of(effects: Iterable[RuleEffects]) -> EffectBits:
    """What any of them asks for."""
    bits = EffectBits.NONE
    for each in effects:
        bits |= each.bits
    return bits
