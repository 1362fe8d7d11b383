# SPDX-License-Identifier: Apache-2.0
"""Intents with opaque rules: those that every reading keeps, that every reading breaks, and the rest.

More allowed flows help intents with `always`, and hurt all other intents. So an intent holds if it holds
at the bound that is worst for it, and is broken if it is broken at the bound that is best for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from policyc.ir.bounds import lower_bound, upper_bound
from policyc.ir.intents import Intent, IntentKind
from policyc.ir.policy import PolicySet
from policyc.ir.results.opaque import blamed_for, part_of, words_of
from policyc.ir.results.verify import IntentAnswer, IntentStatus

Ask = Callable[[PolicySet, Sequence[Intent]], Sequence[IntentAnswer]]
"""The answers about policies without opaque rules."""


def answers_however_read(
    policies: PolicySet, intents: Sequence[Intent], ask: Ask
) -> tuple[IntentAnswer, ...]:
    """The answer for each intent, in order."""
    bounds = lower_bound(policies), upper_bound(policies)
    worst = _asked(bounds, intents, ask)
    unsettled = [at for at, each in enumerate(worst) if each.status is not IntentStatus.HOLDS]
    best = _asked(bounds[::-1], [intents[at] for at in unsettled], ask)
    for at, answer in zip(unsettled, best, strict=True):
        worst[at] = _together(policies, worst[at], answer)
    return tuple(worst)


def _asked(
    bounds: tuple[PolicySet, ...], intents: Sequence[Intent], ask: Ask
) -> list[IntentAnswer]:
    """`always` at the first bound, the others at the second."""
    found: dict[int, IntentAnswer] = {}
    for policies, wants_always in zip(bounds, (True, False), strict=True):
        ats = [
            at
            for at, intent in enumerate(intents)
            if (intent.kind is IntentKind.ALWAYS) is wants_always
        ]
        if ats:
            found |= zip(ats, ask(policies, [intents[at] for at in ats]), strict=True)
    return [found[at] for at in range(len(intents))]


def _together(policies: PolicySet, worst: IntentAnswer, best: IntentAnswer) -> IntentAnswer:
    """The answer under every reading, from the answers at the worst and the best bound."""
    if IntentStatus.UNDECIDED in (worst.status, best.status):
        return worst if worst.status is IntentStatus.UNDECIDED else best
    if worst.status is IntentStatus.VACUOUS or best.status is IntentStatus.BROKEN:
        return best
    flow = worst.witness.flow if worst.witness is not None else None
    blamed = () if flow is None else tuple(map(part_of, blamed_for(policies, flow)))
    why = "; ".join(map(words_of, blamed))
    return replace(
        worst,
        status=IntentStatus.UNDECIDED,
        explanation=f"an undecided part decides whether it is broken or holds: {why}",
        responsible=tuple(part.place for part in blamed) or worst.responsible,
    )
