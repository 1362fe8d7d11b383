# SPDX-License-Identifier: Apache-2.0
"""Claims about effects: the program applies a limit and records an event exactly where a rule asks.

Of the rules that decided, `pc_effects` says which have an effect (runtime/datapath/effects.h). The
claims leave open when a limit is reached, and which packets' events are withheld.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from policyc.ir.effects import EffectBits
from policyc.verifier.bytecode.symbolic.environment import Deed
from policyc.verifier.bytecode.values import Bits, Cmp, Truth
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.policy_claims import PolicyClaims
from policyc.verifier.translation.policy_runs import PolicyRuns
from policyc.verifier.translation.words import Words

EVENTS, EVENT_COUNT, EVENT_PACES = "pc_events", "pc_event_count", "pc_event_paces"
LIMITS = ("pc_limits", "pc_limits_out")
REFUSED = "pc_quota_full"
OF_EFFECTS = (*LIMITS, EVENTS, EVENT_COUNT, EVENT_PACES, REFUSED)
EVENT_PLACES = {"egress_rule": 12, "ingress_rule": 16, "src": 20, "dst": 24}
"""The size of struct pc_event: the object has no type of its ring buffer."""
INSERT = 0
"""PC_ENTRY_INSERT of runtime/datapath/flow.h: the connection is new."""


@dataclass(frozen=True)
class EffectClaims:
    """Claims on limits and events, by the effects of rules in the effects table."""

    runs: PolicyRuns
    policy: PolicyClaims

    @cached_property
    def may_be_limited(self) -> Truth:
        """The connection is new and allowed, and a rule that allowed it has a limit."""
        a = self._words
        is_new = a.domain.compare(
            Cmp.EQ, self.runs.field("action.entry_op"), INSERT, self._bits_of("action.entry_op")
        )
        return a.all_of(is_new, self.policy.is_allowed, self._asks(EffectBits.LIMIT))

    @cached_property
    def may_be_logged(self) -> Truth:
        """A rule that decided, or that matched before it, wants an event."""
        return self._asks(EffectBits.LOG)

    def of(self, deed: Deed) -> Iterator[Claim]:
        """Claims on the stored state of limits, and on the contents of events."""
        guard, domain = deed.guard.term(), self.runs.domain
        is_written = deed.what in ("update", "store")
        if deed.map in LIMITS and is_written:
            never = domain.both(guard, domain.no(self.may_be_limited))
            yield Claim(f"{deed.map} is changed for a flow without a limit", never, deed.at)
        elif deed.map == REFUSED and is_written:
            may_be_refused = domain.either(self.policy.is_allowed, self.may_be_logged)
            never = domain.both(guard, domain.no(may_be_refused))
            yield Claim(f"{deed.map} is changed for a flow that asks for nothing", never, deed.at)
        elif (deed.map, deed.what) == (EVENT_COUNT, "store") or (
            deed.map == EVENT_PACES and is_written
        ):
            never = domain.both(guard, domain.no(self.may_be_logged))
            yield Claim(f"{deed.map} is changed for a flow that no rule logs", never, deed.at)
        elif deed.map == EVENTS and deed.what == "submit":
            never = domain.both(guard, domain.no(self.may_be_logged))
            yield Claim("an event is told of a flow that no rule logs", never, deed.at)
            yield from self._of_event(deed)
        else:
            yield Claim(f"{deed.map} is changed", guard, deed.at)

    def _of_event(self, deed: Deed) -> Iterator[Claim]:
        """It names the rules that decided and the ends that were evaluated."""
        domain, guard = self.runs.domain, deed.guard.term()
        wanted: dict[str, Bits] = {
            "egress_rule": self.policy.egress.rule,
            "ingress_rule": self.policy.ingress.rule,
            "src": self.runs.field("src.id"),
            "dst": self.runs.field("dst.id"),
        }
        assert deed.before is not None, "a record that is submitted is there"
        for name, value in wanted.items():
            told = number_in(deed.before.load(EVENT_PLACES[name], 4))
            wrong = domain.both(guard, domain.no(self._words.equal(told, value)))
            yield Claim(f"an event has another {name}", wrong, deed.at)

    def _asks(self, bit: EffectBits) -> Truth:
        """Whether a rule that decided has the effect; rule 0 stands for an end that is not evaluated."""
        ends = (self.policy.egress, self.policy.ingress)
        found: Truth = False
        for end in ends:
            kinds = self.policy.kinds(end.rule)
            found = self._words.domain.either(found, self._words.has(kinds, bit))
        return found

    def _bits_of(self, name: str) -> int:
        btf = self.runs.source.btf
        return 8 * btf.size(btf.place("pc_flow", name).type)

    @cached_property
    def _words(self) -> Words:
        return Words(self.runs.domain)
