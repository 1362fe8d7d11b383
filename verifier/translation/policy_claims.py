# SPDX-License-Identifier: Apache-2.0
"""Claims about the policy program's decision on a flow: the ends that must allow it, the result.

Derived from docs/semantics.md A4 (every end of this node must allow it), A22 and A23 (a pod cannot block
itself), and the words that the reading of the plan gives for each end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from policyc.ir.decision import FAIL_CLOSED_RULE, NOT_ISOLATED_RULE
from policyc.ir.effects import EffectBits
from policyc.ir.policy import Direction
from policyc.ir.trees import (
    ALLOW,
    ID_MASK,
    LEAF,
)
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.translation.lookups import Looks
from policyc.verifier.translation.policy_runs import PolicyRuns
from policyc.verifier.translation.words import Words

OPENER_KNOWN, OPENER_PROBE, OPENER_EITHER, OPENER_OWN_NODE = 0, 1, 2, 5
"""Values of enum pc_opener in runtime/datapath/flow.h."""
EFFECTS = "pc_effects"


@dataclass(frozen=True)
class EndClaim:
    """One end: whether it is on this node and evaluated, whether it allows, by which rule (0: none)."""

    is_asked: Truth
    allows: Truth
    rule: Bits


@dataclass(frozen=True)
class PolicyClaims:
    """The decision on a flow, from the word of each end. `rules` is the number of rule ids.

    `binds_own_node`: some rule also denies flows that a pod's own node generates.
    """

    runs: PolicyRuns
    words: Mapping[Direction, Bits]
    rules: int
    looks: Looks
    binds_own_node: bool = False

    @cached_property
    def is_within(self) -> Truth:
        """A pod talks to itself, on any path."""
        a = self._words
        src, dst = (self.runs.field(f"{end}.id") for end in ("src", "dst"))
        return a.all_of(a.domain.no(a.equal(src, 0)), a.equal(src, dst))

    @cached_property
    def egress(self) -> EndClaim:
        """The sending end: evaluated first."""
        a = self._words
        is_asked = a.all_of(self._is_local("src"), a.domain.no(self.is_within))
        return self._end(Direction.EGRESS, is_asked)

    @cached_property
    def ingress(self) -> EndClaim:
        """The receiving end: evaluated if the sending end allowed it, or was not evaluated."""
        a, egress = self._words, self.egress
        goes_on = a.domain.either(a.domain.no(egress.is_asked), egress.allows)
        is_asked = a.all_of(
            self._is_local("dst"),
            a.domain.no(self.is_within),
            goes_on,
            a.domain.no(self.passes_own_node),
        )
        return self._end(Direction.INGRESS, is_asked)

    @cached_property
    def passes_own_node(self) -> Truth:
        """The pod's own node sends it, and the decision does not deny exactly these flows (A22)."""
        if not self.binds_own_node:
            return False
        a, word = self._words, self.words[Direction.INGRESS]
        kinds = self.kinds(a.mask(word, ID_MASK))
        denies = a.all_of(a.has(word, LEAF), a.has(kinds, EffectBits.OWN_NODE))
        is_own = self.runs.domain.equal(self.runs.field("opener"), OPENER_OWN_NODE, 8)
        return a.all_of(is_own, a.domain.no(denies))

    def kinds(self, rule: Bits) -> Bits:
        """The first word of a rule's effects; 0 beyond the table, or without one."""
        table = self.runs.program.maps.get(EFFECTS)
        if table is None:
            return 0
        a = self._words
        there = a.at_most(rule, table.max_entries - 1)
        return a.choose(there, self.looks.look(EFFECTS, rule, 0), 0)

    @cached_property
    def is_allowed(self) -> Truth:
        """The flow is of some pod of this node, and no evaluated end denies it."""
        a = self._words
        is_of_pod = a.domain.either(self._is_local("src"), self._is_local("dst"))
        allowed = (
            a.domain.either(a.domain.no(end.is_asked), end.allows)
            for end in (self.egress, self.ingress)
        )
        return a.all_of(is_of_pod, *allowed)

    @cached_property
    def is_probe(self) -> Truth:
        """The opening end is unknown: both directions have to be allowed."""
        return self.runs.domain.equal(self.runs.field("opener"), OPENER_PROBE, 8)

    @property
    def counted(self) -> list[tuple[Truth, Bits]]:
        """(when, rule) of each required count."""
        own: tuple[Truth, Bits] = (self.is_within, NOT_ISOLATED_RULE)
        return [own, *((end.is_asked, end.rule) for end in (self.egress, self.ingress))]

    @cached_property
    def _words(self) -> Words:
        return Words(self.runs.domain)

    def _end(self, direction: Direction, is_asked: Truth) -> EndClaim:
        a, word = self._words, self.words[direction]
        rule = a.mask(word, ID_MASK)
        is_verdict = a.all_of(a.has(word, LEAF), a.at_most(rule, self.rules - 1))
        decider = a.choose(is_verdict, rule, FAIL_CLOSED_RULE)
        allows = a.all_of(is_verdict, a.has(word, ALLOW))
        return EndClaim(is_asked, allows, a.choose(is_asked, decider, 0))

    def _is_local(self, end: str) -> Truth:
        a = self._words
        return a.domain.no(a.equal(self.runs.field(f"{end}.ifindex"), 0))
