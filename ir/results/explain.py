# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc explain`: the verdict walked tier by tier, for both ends. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.policy import Action, Direction
from policyc.ir.results.common import Place, UniverseUsed
from policyc.ir.results.reasons import Reason
from policyc.ir.semantics import EndVerdict, Verdict
from policyc.ir.universe import Flow


class RulePart(Enum):
    """The parts of a rule, all of which must match."""

    OWN = "own side"
    PEER = "peer"
    PORTS = "ports"
    EXCEPT_PORTS = "excepted ports"
    SOURCE_PORTS = "source ports"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A part of a rule that does not match, and why.

    `asked` is the part in words. Of several alternatives (peers, ports) it is the nearest, the one with
    the fewest `reasons`; `n_alternatives` counts all of them.
    """

    part: RulePart
    asked: str
    reasons: tuple[Reason, ...]
    n_alternatives: int = 1


class RuleRole(Enum):
    """The role of a rule in the verdict."""

    DECIDES = "decides"
    """The rule decided."""
    NOTES = "notes"
    """The rule matches and logs or counts; evaluation continues."""
    PASSES = "passes"
    """The rule matches and sends the flow on to the next tier."""
    AGREES = "agrees"
    """The rule matches, and would decide the same without the rule that decided."""
    COMES_LATER = "comes later"
    """The rule matches, with another action, after the rule that decided."""
    NO_MATCH = "no match"
    """The rule does not match."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice that the API leaves to the implementation and that was used: the clause and its content.

    Clauses are those of docs/semantics.md.
    """

    clause: str
    words: str


@dataclass(frozen=True, slots=True)
class RuleWalk:
    """A rule of a policy that selects the end; `mismatches` is empty exactly if the rule matches."""

    place: Place
    words: str
    action: Action
    role: RuleRole
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def distance(self) -> int:
        """The number of facts that prevent a match: 0 if the rule matches."""
        return sum(max(1, len(mismatch.reasons)) for mismatch in self.mismatches)


@dataclass(frozen=True, slots=True)
class PolicyWalk:
    """A policy that selects the end, and its rules of the direction, as they are written."""

    place: Place
    isolates: bool
    rules: tuple[RuleWalk, ...]

    @property
    def nearest(self) -> RuleWalk | None:
        """The rule that came nearest to a match; None if a rule matches, or there are no rules."""
        if not self.rules or any(not rule.mismatches for rule in self.rules):
            return None
        return min(self.rules, key=lambda rule: rule.distance)


class TierOutcome(Enum):
    """The result of a tier for the flow."""

    DECIDED = "decided"
    DEFAULT = "default"
    """No rule decided, and a policy isolates the end: the tier's default for unmatched traffic."""
    PASSED = "passed"
    """A rule passed it on, or the tier passes on what it does not match."""
    UNTOUCHED = "untouched"
    """No policy of the tier decides the flow."""
    NOT_ASKED = "not asked"
    """An earlier tier decided."""


@dataclass(frozen=True, slots=True)
class TierWalk:
    """A tier, those of its policies that select the end, and the tier's result for the flow."""

    name: str
    n_policies: int
    policies: tuple[PolicyWalk, ...]
    outcome: TierOutcome
    words: str


@dataclass(frozen=True, slots=True)
class EndWalk:
    """The verdict of one end, and its derivation.

    `assumed` names the assumptions about unknown attributes, empty if there were none. `skipped` is the
    reason if no tier was evaluated, else empty. `changes` are the changes that would give another
    verdict.
    """

    direction: Direction
    subject: str
    verdict: EndVerdict
    tiers: tuple[TierWalk, ...]
    skipped: str = ""
    choices: tuple[Choice, ...] = ()
    changes: tuple[str, ...] = ()
    assumed: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One flow, its verdict, and the walk of both ends."""

    flow: Flow
    verdict: Verdict
    egress: EndWalk
    ingress: EndWalk


@dataclass(frozen=True, slots=True)
class ExplainResult:
    """The answer to `policyc explain`.

    `verdict` is allow, deny, reject or unknown. `egress` and `ingress` have one walk for each possible
    verdict of that end. There are several only if the verdict depends on unknown attributes, which
    `unknown` names.
    """

    flow: Flow
    verdict: str
    egress: tuple[EndWalk, ...]
    ingress: tuple[EndWalk, ...]
    universe: UniverseUsed
    unknown: tuple[str, ...] = ()
