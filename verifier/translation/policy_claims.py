# SPDX-License-Identifier: Apache-2.0
"""What the policy program has to do with a flow, in terms: whom it asks, and what must follow.

From docs/semantics.md A4 (every end of this node must allow it), A22 and A23 (a pod cannot block
itself), and the words that the reading of the plan gives for each end.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from policyc.ir.decision import FAIL_CLOSED_RULE, NOT_ISOLATED_RULE
from policyc.ir.policy import Direction
from policyc.ir.tree import ALLOW, ID_MASK, LEAF
from policyc.verifier.translation.policy_runs import PolicyRuns
from policyc.verifier.z3_when_used import z3

WORD = 32


@dataclass(frozen=True)
class EndClaim:
    """One end: whether it is of this node and asked, whether it allows, by which rule (0: not asked)."""

    is_asked: Any
    allows: Any
    rule: Any


@dataclass(frozen=True)
class PolicyClaims:
    """The decision on a flow, from the word of each end. `rules` is how many rule ids there are."""

    runs: PolicyRuns
    words: dict[Direction, Any]
    rules: int

    @cached_property
    def is_within(self) -> Any:
        """A pod talks to itself, by whatever way."""
        src, dst = (self._lift(self.runs.field(f"{end}.id")) for end in ("src", "dst"))
        return z3.And(src != 0, src == dst)

    @cached_property
    def egress(self) -> EndClaim:
        """The end that sends: asked first."""
        return self._end(Direction.EGRESS, z3.And(self._is_local("src"), z3.Not(self.is_within)))

    @cached_property
    def ingress(self) -> EndClaim:
        """The end that receives: asked where the other one allowed it, or was not asked."""
        egress = self.egress
        is_asked = z3.And(
            self._is_local("dst"),
            z3.Not(self.is_within),
            z3.Or(z3.Not(egress.is_asked), egress.allows),
        )
        return self._end(Direction.INGRESS, is_asked)

    @cached_property
    def is_allowed(self) -> Any:
        """The flow is of some pod of this node, and no end that is asked denies it."""
        return z3.And(
            z3.Or(self._is_local("src"), self._is_local("dst")),
            *(z3.Implies(end.is_asked, end.allows) for end in (self.egress, self.ingress)),
        )

    @property
    def counted(self) -> list[tuple[Any, Any]]:
        """(when, rule) of each count that is due."""
        own = (self.is_within, z3.BitVecVal(NOT_ISOLATED_RULE, WORD))
        return [own, *((end.is_asked, end.rule) for end in (self.egress, self.ingress))]

    def _end(self, direction: Direction, is_asked: Any) -> EndClaim:
        word = self._lift(self.words[direction])
        rule = word & ID_MASK
        is_verdict = z3.And(word & LEAF != 0, z3.ULT(rule, self.rules))
        decider = z3.If(is_verdict, rule, z3.BitVecVal(FAIL_CLOSED_RULE, WORD))
        asked = z3.If(is_asked, decider, z3.BitVecVal(0, WORD))
        return EndClaim(is_asked, z3.And(is_verdict, word & ALLOW != 0), asked)

    def _is_local(self, end: str) -> Any:
        return self._lift(self.runs.field(f"{end}.ifindex")) != 0

    def _lift(self, bits: Any) -> Any:
        return self.runs.domain.lift(bits, WORD)
