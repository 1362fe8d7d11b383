# SPDX-License-Identifier: Apache-2.0
"""Useless rules in the symbolic universe: candidates from representatives, each proved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from policyc.compiler.driver.check.answers import (
    Answers,
    CheckOptions,
)
from policyc.compiler.driver.compile.compile import Progress
from policyc.compiler.driver.node_bundles.shards import map_shards
from policyc.ir.bounds import RulePlace
from policyc.ir.policy import PolicySet
from policyc.ir.results.common import Evidence
from policyc.verifier.cluster.redundancy import Redundancy, Useless, Uselessness
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.diff.symbolic import (
    Group,
    groups_of,
)
from policyc.verifier.redundancy.covers import Covers
from policyc.verifier.redundancy.representatives import (
    impossible_columns,
    representative_space,
)
from policyc.verifier.redundancy.symbolic import (
    Asked,
    Candidate,
    Proved,
    Prover,
    UndecidedError,
    places_of_rules,
    prove_candidates,
    prove_groups,
    without,
)
from policyc.verifier.smt.solvers import (
    Answer,
    versions_of,
)

METHOD = (
    "each needed rule has a flow, among representative pods or from a solver; each useless rule is "
    "proved useless, alone and all together, by a rule that covers it or by a solver"
)
COVERED = (
    "each needed rule has a flow among representative pods; each useless rule is covered by others, "
    "alone and all together; no solver query"
)
NEEDED = "each rule is needed by a flow among representative pods; no solver query"
Shard = TypeVar("Shard")
Answered = TypeVar("Answered")
_SHARD = 25
"""The number of rules, or groups of policies, in one task of a worker."""


def useless_anywhere(
    policies: PolicySet, options: CheckOptions, progress: Progress
) -> tuple[Answers, Redundancy]:
    """The rules that change nothing in any cluster, and the representatives they were tried on."""
    progress("checking every rule on representative pods")
    space = representative_space(policies, options.pod_networks)
    impossible = impossible_columns(space, options.pod_networks)
    tried = Redundancy(space, policies, impossible=impossible)
    search = _Search(policies, options, progress, tried)
    return search.answers(), tried


@dataclass
class _Search:
    policies: PolicySet
    options: CheckOptions
    progress: Progress
    tried: Redundancy
    queries: int = 0
    undecided: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.options
        self.asked = Asked(self.policies, options.pod_networks, options.solver, options.timeout_ms)
        self.places = places_of_rules(self.policies)
        self.covers = Covers(self.policies)

    def answers(self) -> Answers:
        """The useless rules, and those that may be removed together."""
        by_place = {
            self._place(each.rule): each
            for each in self.tried.useless()
            if self.options.asks_about(each.rule.rule.origin.span)
        }
        found = [
            replace(by_place[proof.place], why=proof.why)
            for proof in self._proofs(by_place)
            if proof.why is not None
        ]
        together = self._together(found)
        evidence = Evidence(NEEDED)
        if self.queries or self.undecided:
            evidence = Evidence(METHOD, versions_of(self.options.solver), self.queries)
        elif by_place:
            evidence = Evidence(COVERED)
        return Answers(tuple(found), tuple(together), evidence, tuple(self.undecided))

    def _place(self, rule: RuleId) -> RulePlace:
        return self.places[id(rule.policy), rule.direction, rule.index]

    def _proofs(self, by_place: dict[RulePlace, Useless]) -> Iterator[Proved]:
        self.progress(f"proving {len(by_place)} of {len(self.places)} rules useless")
        candidates = [Candidate(place, each.why) for place, each in by_place.items()]
        proved = {each.place: self._covered(each) for each in candidates}
        open_ones = [each for each in candidates if proved[each.place] is None]
        answers = (proof for part in self._map(prove_candidates, open_ones) for proof in part)
        for place in by_place:
            proof = proved[place] or next(answers)
            self.queries += proof.queries
            if proof.undecided:
                rule = by_place[proof.place].rule
                title = f"{rule.policy.title} {rule.rule.origin.path}"
                self.undecided.append(f"is {title} needed? {proof.undecided}")
            yield proof

    def _covered(self, candidate: Candidate) -> Proved | None:
        """The proof by a rule that covers the candidate; None: a solver has to decide."""
        place, why = candidate.place, candidate.why
        if why is Uselessness.DEAD:
            return None
        if why is Uselessness.SHADOWED:
            return None if self.covers.is_reached(place) else Proved(place, why, 0)
        return Proved(place, why, 0) if self.covers.changes_nothing(place) else None

    def _map(
        self, function: Callable[[Asked, Sequence[Shard]], Answered], items: Sequence[Shard]
    ) -> Iterator[Answered]:
        shards = (items[start : start + _SHARD] for start in range(0, len(items), _SHARD))
        return map_shards(function, self.asked, shards, self.options.jobs, self.options.executor)

    def _together(self, found: list[Useless]) -> list[RuleId]:
        """A maximal set: tried on the representatives, then proved; else built rule by rule."""
        if not found:
            return []
        chosen = self.tried.together(found)
        self.progress(f"proving that {len(chosen)} rules can be removed together")
        answer = self._are_removable(chosen)
        if answer is Answer.UNSAT and len(chosen) == len(found):
            return chosen
        return self._grown(found, chosen, answer)

    def _are_removable(self, chosen: Sequence[RuleId]) -> Answer:
        places = list(map(self._place, chosen))
        covered = self.covers.removable(places)
        if len(covered) == len(places):
            return Answer.UNSAT
        most, less = (without(self.policies, each) for each in (covered, places))
        groups: list[Group] = list(groups_of(most, less))
        for queries, answer, reason in self._map(prove_groups, groups):
            self.queries += queries
            if answer is Answer.UNKNOWN:
                self.undecided.append(f"can {len(chosen)} rules be removed together? {reason}")
            if answer is not Answer.UNSAT:
                return answer
        return Answer.UNSAT

    def _grown(self, found: list[Useless], chosen: list[RuleId], answer: Answer) -> list[RuleId]:
        """Rules in order of choice, each checked with the earlier ones removed; then all once more.

        A rule that the representatives did not choose is needed by one of them. If their choice is
        proved, nothing can be added.
        """
        if answer is not Answer.SAT:
            return chosen if answer is Answer.UNSAT else []
        prover = Prover(self.asked)
        gone: dict[RulePlace, RuleId] = {}
        taken = set(map(self._place, chosen))
        others = [each.rule for each in found if self._place(each.rule) not in taken]
        for rule in (*chosen, *others):
            place = self._place(rule)
            try:
                if prover.is_removable(place, frozenset(gone)):
                    gone[place] = rule
            except UndecidedError as failure:
                self.undecided.append(
                    f"can {rule.policy.title} be removed with the others? {failure}"
                )
        self.queries += prover.queries
        kept = list(gone.values())
        return kept if self._are_removable(kept) is Answer.UNSAT else []
