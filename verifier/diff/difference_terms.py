# SPDX-License-Identifier: Apache-2.0
"""Terms for the relations between two policy sets on a symbolic connection."""

import z3

from policyc.ir.policy import Action, Direction, PolicySet
from policyc.ir.results.diff import DifferenceKind
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.verdict_terms import ACTIONS

_ALLOW = ACTIONS.index(Action.ALLOW)


def is_kind(
    c: ConnectionTerms,
    kind: DifferenceKind,
    ignore_effects: bool,
    directions: tuple[Direction, ...] = tuple(Direction),
) -> Term:
    """The connection changes in this way from the first of its sets to the second.

    A latent change is a difference at one of `directions` that leaves the connection's verdict the same.
    """
    before, after = c.sets
    was, now = c.allowed(before), c.allowed(after)
    match kind:
        case DifferenceKind.WIDENED:
            return z3.And(z3.Not(was), now)
        case DifferenceKind.NARROWED:
            return z3.And(was, z3.Not(now))
        case DifferenceKind.CHANGED:
            return z3.And(was == now, z3.Not(_is_same(c, ignore_effects)))
        case DifferenceKind.LATENT:
            differs = z3.Or(*(_differs_at(c, d, ignore_effects) for d in directions))
            return z3.And(_is_same(c, ignore_effects), differs)


def _is_same(c: ConnectionTerms, ignore_effects: bool) -> Term:
    """The connection has the same action and effects before and after."""
    (one, noted), (other, noted_too) = (_together(c, policies) for policies in c.sets)
    return one == other if ignore_effects else z3.And(one == other, noted == noted_too)


def _together(c: ConnectionTerms, policies: PolicySet) -> tuple[Term, Term]:
    """The outcome of a connection; a flow that its source's end denies never reaches the other end."""
    action, effects = c.end(policies, Direction.EGRESS)
    at_destination, more = c.end(policies, Direction.INGRESS)
    passes = action == _ALLOW
    return z3.If(passes, at_destination, action), z3.If(passes, effects | more, effects)


def _differs_at(c: ConnectionTerms, direction: Direction, ignore_effects: bool) -> Term:
    (one, noted), (other, noted_too) = (c.end(policies, direction) for policies in c.sets)
    return one != other if ignore_effects else z3.Or(one != other, noted != noted_too)
