# SPDX-License-Identifier: Apache-2.0
"""From a solver's model of a connection to a flow, which the reference semantics must confirm.

A model is never trusted. If `ir/semantics.verdict` and the terms disagree about either end, that is a
bug in policyc and an InternalError.
"""

from dataclasses import dataclass

from policyc.ir.errors import InternalError
from policyc.ir.policy import Action, Direction, Limit
from policyc.ir.semantics import Effect, EffectKind, EndVerdict, Verdict, verdict
from policyc.ir.universe import Flow
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.model_ends import Reading
from policyc.verifier.symbolic.verdict_terms import ACTIONS


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A flow out of a model, and the reference semantics' verdict on it for each policy set."""

    flow: Flow
    verdicts: tuple[Verdict, ...]


def confirmed(connection: ConnectionTerms, model: Term) -> Confirmed:
    """The flow of a model, evaluated again under every policy set: both actions and effects."""
    flow = connection.read(model)
    reading = Reading(model)
    verdicts = tuple(verdict(policies, flow) for policies in connection.sets)
    for policies, found in zip(connection.sets, verdicts, strict=True):
        for direction, end in (
            (Direction.EGRESS, found.egress),
            (Direction.INGRESS, found.ingress),
        ):
            action, effects = connection.end(policies, direction)
            said = ACTIONS[reading.number(action)], reading.number(effects)
            if said != (end.action, _mask(connection, end)):
                raise InternalError(
                    f"the solver's flow {flow} has another {direction.value} verdict in the"
                    f" semantics: {end.action.value}, not {said[0].value}"
                )
    return Confirmed(flow, verdicts)


def _mask(connection: ConnectionTerms, end: EndVerdict) -> int:
    """The effects as the terms number them."""
    mask = 0
    for effect in end.effects:
        mask |= connection.effect_numbers[_effect_key(effect)]
    return mask


def _effect_key(effect: Effect) -> Action | Limit:
    match effect.kind:
        case EffectKind.LOG:
            return Action.LOG
        case EffectKind.AUDIT:
            return Action.AUDIT
        case EffectKind.LIMIT:
            limit = effect.by.rule.limit
            assert limit is not None
            return limit
