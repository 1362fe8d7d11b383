# SPDX-License-Identifier: Apache-2.0
"""Whole policies that change nothing: all of them may be deleted together, which is proved.

A candidate has only useless rules, and wherever it isolates a pod another policy does so, too. One
candidate after the other is deleted, each time with a proof that no verdict and no effect changes. The
proof is about every pod that could exist, also where a cluster is given.

A policy without rules, such as a default deny, is a safety net: it isolates pods also after a change of
other policies. So it is compared with the other policies without rules alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from policyc.compiler.driver.check.answers import Answers, CheckOptions
from policyc.compiler.driver.check.codes import POLICY_CHANGES_NOTHING
from policyc.compiler.driver.compile.compile import Progress, Read
from policyc.ir.bounds import is_understood
from policyc.ir.diagnostics import Note
from policyc.ir.peers import Network
from policyc.ir.policy import NEVER, Direction, Policy, PolicySet
from policyc.ir.results.common import Finding
from policyc.ir.results.places import key_of_policy, place_of_policy
from policyc.verifier.cluster.redundancy import Redundancy, key_of
from policyc.verifier.diff.symbolic import groups_of
from policyc.verifier.redundancy.symbolic import Asked, prove_groups
from policyc.verifier.smt.solvers import Answer

MOST_TRIED = 200
"""The number of candidates that are tried."""
_MOST_NOTES = 8


@dataclass(frozen=True, slots=True)
class UselessPolicy:
    """A policy that may be deleted, and policies that isolate its pods or decide its flows instead."""

    policy: Policy
    instead: tuple[Policy, ...]


@dataclass(frozen=True, slots=True)
class UselessPolicies:
    """The policies that may be deleted together, and those that are `left` then.

    `undecided` and `notes` say what was not decided or not tried.
    """

    left: PolicySet
    found: tuple[UselessPolicy, ...] = ()
    queries: int = 0
    undecided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def useless_policies(
    read: Read, answers: Answers, tried: Redundancy, options: CheckOptions, progress: Progress
) -> UselessPolicies:
    """The policies without effect; none if some rule is opaque, because its flows are not known."""
    policies = read.policies.policies
    if not is_understood(policies):
        return UselessPolicies(policies)
    about = options.asks_about
    found_useless = _candidates(policies, answers, tried)
    candidates = [each for each in found_useless if about(each.policy.origin.span)]
    candidates.reverse()  # of two equal policies the first is kept
    most = MOST_TRIED
    notes: tuple[str, ...] = ()
    if len(candidates) > most:
        left = len(candidates) - most
        notes = (f"{left} more policies may change nothing: they were not tried as a whole",)
    if candidates:
        progress(f"proving that {min(most, len(candidates))} policies change nothing")
    search = _Search(options, policies)
    found = [each for each in candidates[:most] if search.is_deleted(each.policy)]
    return UselessPolicies(
        search.left, tuple(found), search.queries, tuple(search.undecided), notes
    )


def _candidates(
    policies: PolicySet, answers: Answers, tried: Redundancy
) -> Iterator[UselessPolicy]:
    useless = {key_of(each.rule): each for each in answers.useless}
    alone, beside = _isolating(tried)
    for tier in policies.tiers:
        for policy in tier.policies:
            keys = [
                (id(policy), direction is Direction.INGRESS, index)
                for direction in Direction
                for index in range(len(policy.rules(direction)))
            ]
            if policy.hosts != NEVER or id(policy) in alone:
                continue
            if all(key in useless for key in keys):
                instead = dict(beside.get(id(policy), {}))
                for key in keys:
                    for rule in useless[key].instead:
                        instead.setdefault(id(rule.policy), rule.policy)
                instead.pop(id(policy), None)
                yield UselessPolicy(policy, tuple(instead.values()))


def _isolating(tried: Redundancy) -> tuple[set[int], dict[int, dict[int, Policy]]]:
    """The ids of policies that alone isolate some pod; and for the others, who isolates as well."""
    alone: set[int] = set()
    beside: dict[int, dict[int, Policy]] = {}
    for rows in tried.rows.values():
        for row, _ in rows:
            for tier in row.tiers:
                if len(tier.isolating) == 1:
                    alone.add(id(tier.isolating[0]))
                for policy in tier.isolating:
                    others = {id(each): each for each in tier.isolating if each is not policy}
                    beside.setdefault(id(policy), {}).update(others)
    return alone, beside


class _Search:
    """Deletes one policy after the other, as long as nothing changes."""

    def __init__(self, options: CheckOptions, policies: PolicySet) -> None:
        self._options = options
        self._policies = policies
        self.left = policies
        self.queries = 0
        self.undecided: list[str] = []

    def is_deleted(self, policy: Policy) -> bool:
        """Whether nothing changes without the policy; if so, it is deleted for the next question."""
        for before, after in self._comparisons(policy):
            groups = list(groups_of(before, after))
            queries, answer, reason = prove_groups(self._asked(before), groups)
            self.queries += queries
            if answer is Answer.UNKNOWN:
                self.undecided.append(f"does {policy.title} change anything? {reason}")
            if answer is not Answer.UNSAT:
                return False
        self.left = _without(self.left, policy)
        return True

    def _asked(self, policies: PolicySet) -> Asked:
        options = self._options
        return Asked(policies, options.pod_networks, options.solver, options.timeout_ms)

    def _comparisons(self, policy: Policy) -> Iterator[tuple[PolicySet, PolicySet]]:
        """The sets, with the policy and without it, that must be equal.

        Those are all policies, those that are left, and these without their rules: what the policy
        isolates must be isolated still. A policy without rules is compared with such policies alone.
        """
        if not _has_rules(policy):
            beside = _restricted(self.left, is_kept=_has_no_rules)
            yield beside, _without(beside, policy)
            return
        yield self._policies, _without(self._policies, policy)
        less = _without(self.left, policy)
        yield self.left, less
        if policy.isolates:
            yield _emptied(self.left), _emptied(less)


def _emptied(policies: PolicySet) -> PolicySet:
    """The policies without their rules: what is isolated remains."""
    return PolicySet(
        tuple(
            replace(
                tier,
                policies=tuple(replace(each, ingress=(), egress=()) for each in tier.policies),
            )
            for tier in policies.tiers
        )
    )


def _has_rules(policy: Policy) -> bool:
    return bool(policy.ingress or policy.egress)


def _has_no_rules(policy: Policy) -> bool:
    return not _has_rules(policy)


def _without(policies: PolicySet, policy: Policy) -> PolicySet:
    return _restricted(policies, lambda each: each is not policy)


def _restricted(policies: PolicySet, is_kept: Callable[[Policy], bool]) -> PolicySet:
    return PolicySet(
        tuple(
            replace(tier, policies=tuple(filter(is_kept, tier.policies))) for tier in policies.tiers
        )
    )


def findings_of_policies(
    useless: UselessPolicies, networks: tuple[Network, ...]
) -> Iterator[Finding]:
    """A finding for each policy that changes nothing, where the pods' addresses are in `networks`."""
    among = f" whose pods have addresses in {', '.join(map(str, networks))}" if networks else ""
    code = POLICY_CHANGES_NOTHING
    n = len(useless.found)
    together = f" All {n} policies with this finding may be deleted together." if n > 1 else ""
    for each in useless.found:
        place = place_of_policy(each.policy)
        yield Finding(
            code.name,
            code.severity,
            code.at(place.span, policy=place.words).message,
            "Without the policy every verdict and every effect stays the same."
            f"{together} This holds in every cluster{among}.",
            place,
            key_of_policy(each.policy),
            tuple(
                Note(policy.origin.span, f"{policy.title} applies to the same pods")
                for policy in each.instead[:_MOST_NOTES]
            ),
            "delete the policy",
        )
