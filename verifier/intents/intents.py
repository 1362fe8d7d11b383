# SPDX-License-Identifier: Apache-2.0
"""Intents proved, refuted with a witness, or found vacuous; in either universe.

An intent *asks* about some connections: those between its sides, for its services, without the built-in
ones. It is broken if one of them has the wrong verdict, vacuous if policies decide none of them, and
undecided if a solver gave up on either question. A pod that is on both sides of `isolated` breaks it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import z3

from policyc.ir.errors import InternalError
from policyc.ir.intents import Intent, IntentKind, Scope
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.results.common import Place, Witness, stable_key
from policyc.ir.results.places import places_of
from policyc.ir.results.verify import IntentAnswer, IntentStatus
from policyc.ir.semantics import EndVerdict, Verdict
from policyc.ir.universe import Flow
from policyc.verifier.intents.oracle import breaks
from policyc.verifier.intents.words import describe_intent
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    Decision,
    decide,
)
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.connection_flow import confirmed
from policyc.verifier.symbolic.connection_terms import ConnectionTerms
from policyc.verifier.symbolic.readable_model import pleasant_model

BOTH_SIDES = "this pod is on both sides, and a pod can always connect to itself"
"""Why a pod alone breaks an `isolated`."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The solvers to use, and the milliseconds for each query (None: no limit)."""

    choice: Choice = Choice.Z3
    limit_ms: int | None = None


DEFAULT_ASKING = Asking()


@dataclass
class Evidenced:
    """The evidence so far: the solvers, the queries, and the witnesses that were confirmed."""

    solvers: dict[tuple[str, str], None]
    queries: int = 0
    replayed: int = 0

    def add(self, other: "Evidenced") -> None:
        """Add the evidence of another search."""
        self.solvers |= other.solvers
        self.queries += other.queries
        self.replayed += other.replayed


class _GaveUpError(Exception):
    """A solver could not decide; the reason is for people."""


def verify_intents(
    connection: ConnectionTerms,
    policies: PolicySet,
    intents: Iterable[Intent],
    asking: Asking = DEFAULT_ASKING,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[tuple[IntentAnswer, ...], Evidenced]:
    """The answer for each intent, in order; the connection was made for these policies and intents."""
    judge = _Judge(connection, policies, asking)
    answers = []
    for intent in intents:
        progress(f"deciding {intent.title}")
        answers.append(judge.answer(intent))
    return tuple(answers), judge.evidence


class _Judge:
    """Decides intents about one connection."""

    def __init__(self, connection: ConnectionTerms, policies: PolicySet, asking: Asking) -> None:
        self.connection, self.policies, self.asking = connection, policies, asking
        self.evidence = Evidenced({})
        self.possible = z3.And(connection.is_possible(), connection.speaks)
        self._is_sound: bool | None = None

    def answer(self, intent: Intent) -> IntentAnswer:
        """Broken, vacuous or held; undecided where a solver gave up."""
        try:
            if not self._anything_happens():
                return _answer(
                    intent, IntentStatus.VACUOUS, "the cluster has no connections at all"
                )
            return (
                self._broken(intent) or self._vacuous(intent) or _answer(intent, IntentStatus.HOLDS)
            )
        except _GaveUpError as reason:
            return _answer(intent, IntentStatus.UNDECIDED, str(reason))

    def _anything_happens(self) -> bool:
        """Some connection exists: otherwise every proof would be empty. Checked once."""
        if self._is_sound is None:
            self._is_sound = self._ask(self.possible).answer is Answer.SAT
            if not self._is_sound and not self.connection.may_be_empty:
                raise InternalError("no connection satisfies the built-in constraints")
        return self._is_sound

    def _ask(self, *terms: Term) -> Decision:
        """One query; raises if no solver decides it."""
        found = decide(terms, self.asking.choice, self.asking.limit_ms)
        self.evidence.queries += 1
        self.evidence.solvers |= {(each.solver, each.version): None for each in found.answers}
        if found.answer is Answer.UNKNOWN:
            raise _GaveUpError(found.reason)
        return found

    def _holds_somewhere(self, *terms: Term) -> bool:
        return self._ask(self.possible, *terms).answer is Answer.SAT

    # Broken.

    def _broken(self, intent: Intent) -> IntentAnswer | None:
        allowed = self._allowed(intent.scope)
        wrong = z3.Not(allowed) if intent.kind is IntentKind.ALWAYS else allowed
        found = self._flow(self.possible, self._asked(intent), wrong)
        if found is not None:
            flow, verdict = found
            if not breaks(intent, flow, verdict):
                raise InternalError(f"the solver's flow {flow} does not break {intent.title}")
            return _refuted(intent, flow, verdict, "")
        return self._on_both_sides(intent) if intent.kind is IntentKind.ISOLATED else None

    def _on_both_sides(self, intent: Intent) -> IntentAnswer | None:
        """A pod on both sides, which should be isolated from itself."""
        sides = self._src(intent), self._dst(intent)
        found = self._flow(self.possible, self.connection.is_same_pod, *sides)
        return None if found is None else _refuted(intent, *found, BOTH_SIDES)

    def _flow(self, *terms: Term) -> tuple[Flow, Verdict] | None:
        """A connection with these properties, confirmed by the semantics; None if there is none."""
        found = self._ask(*terms)
        if found.answer is Answer.UNSAT:
            return None
        if found.model is None:
            raise _GaveUpError("such a connection exists, but the solver gave no example")
        model = pleasant_model(self.connection, terms, found.model)
        seen = confirmed(self.connection, model)
        self.evidence.replayed += 1
        at = next(i for i, given in enumerate(self.connection.sets) if given is self.policies)
        return seen.flow, seen.verdicts[at]

    # The connections of an intent.

    def _asked(self, intent: Intent) -> Term:
        """The connections that an intent is about."""
        return z3.And(self._meant(intent), self._in_question(intent))

    def _meant(self, intent: Intent) -> Term:
        """The connections between its sides for its services, built-in ones included."""
        src = self._src(intent)
        if intent.kind is IntentKind.ONLY:
            src = z3.Not(src)
        return z3.And(src, self._dst(intent), self.connection.services_in(intent.services))

    def _in_question(self, intent: Intent) -> Term:
        if intent.includes_builtin:
            return z3.BoolVal(True)
        return z3.Not(self.connection.is_builtin(self.policies))

    def _src(self, intent: Intent) -> Term:
        return z3.Or(*map(self.connection.src_matches, intent.src))

    def _dst(self, intent: Intent) -> Term:
        return z3.Or(*map(self.connection.dst_matches, intent.dst))

    def _allowed(self, scope: Scope) -> Term:
        ends = [self.connection.end_allows(self.policies, d) for d in DIRECTIONS[scope]]
        return z3.And(*ends)

    # Vacuous.

    def _vacuous(self, intent: Intent) -> IntentAnswer | None:
        """An intent that holds may be about no connection at all, or hold under any policies."""
        decided = z3.Or(*map(self.connection.is_decided, DIRECTIONS[intent.scope]))
        if not self._holds_somewhere(self._asked(intent), decided):
            return _answer(intent, IntentStatus.VACUOUS, self._why_vacuous(intent))
        if intent.kind is IntentKind.ONLY and not self._holds_somewhere(self._src(intent)):
            return _answer(intent, IntentStatus.VACUOUS, NO_END.format(side="from"))
        return None

    def _why_vacuous(self, intent: Intent) -> str:
        """The first missing part."""
        services = self.connection.services_in(intent.services)
        src, dst = self._src(intent), self._dst(intent)
        if not self._holds_somewhere(services):
            return "no connection uses these services"
        if not self._holds_somewhere(src):
            return NO_END.format(side="from")
        if not self._holds_somewhere(dst):
            return NO_END.format(side="to")
        if intent.kind is IntentKind.ONLY and not self._holds_somewhere(z3.Not(src)):
            return "`from` contains every peer, so the intent excludes none"
        if not self._holds_somewhere(self._meant(intent)):
            return "its sides exist, but no connection with these services runs between them"
        if not self._holds_somewhere(self._asked(intent)):
            return f"every connection that it covers always passes and is exempt: {BUILTIN}"
        if not self._holds_somewhere(
            self._asked(intent), z3.Not(self.connection.is_builtin(self.policies))
        ):
            return f"it holds because every connection that it covers always passes: {BUILTIN}"
        ends = " and ".join(_DECIDING[direction] for direction in DIRECTIONS[intent.scope])
        return f"no policy applies to {ends} of the connections that it covers"


DIRECTIONS: dict[Scope, tuple[Direction, ...]] = {
    Scope.END_TO_END: (Direction.EGRESS, Direction.INGRESS),
    Scope.INGRESS: (Direction.INGRESS,),
    Scope.EGRESS: (Direction.EGRESS,),
}
"""The ends whose verdict an intent is about."""
BUILTIN = "a node to its own pod, a pod to itself, or neighbour discovery"
NO_END = "no pod, node or address can be in `{side}`"
_DECIDING = {
    Direction.EGRESS: "egress at the source",
    Direction.INGRESS: "ingress at the destination",
}


def _refuted(intent: Intent, flow: Flow, verdict: Verdict, explanation: str) -> IntentAnswer:
    """The witness, and the rules that decided at the ends the intent is about."""
    ends = {Direction.EGRESS: verdict.egress, Direction.INGRESS: verdict.ingress}
    asked = [ends[direction] for direction in DIRECTIONS[intent.scope]]
    if intent.kind is IntentKind.ALWAYS:
        asked = [end for end in asked if end.action.is_deny]
    return replace(
        _answer(intent, IntentStatus.BROKEN, explanation),
        witness=Witness(flow, (("", verdict),)),
        responsible=_responsible(asked),
    )


def _responsible(ends: Sequence[EndVerdict]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(place for end in ends for place in places_of(end.decider)))


def _answer(intent: Intent, status: IntentStatus, explanation: str = "") -> IntentAnswer:
    words = describe_intent(intent)
    return IntentAnswer(
        status,
        intent.title,
        words,
        Place(intent.origin.span, intent.origin.path, intent.title),
        stable_key("Intent", "", intent.name, "" if intent.name else words),
        intent.reason,
        explanation,
    )
