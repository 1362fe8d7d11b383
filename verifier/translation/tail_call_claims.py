# SPDX-License-Identifier: Apache-2.0
"""Claims about when the policy program may make a tail call.

It may call itself, to decide the other direction of a connection: the packet does not show which end
opened it, and this direction is allowed. The flow is then the one that the other end would have opened,
and nothing else of it changes. It may call the program that resets revoked connections: the flow is
denied, it is TCP or SCTP, the packet does not open it, the opening end is known, and the policy knows
both ends. The flow stays, and carries the drop reason. It may call the program that forwards first
packets: the flow is allowed, in the direction that opens it. The flow stays.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from policyc.ir.decision import FAIL_CLOSED_RULE
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.pointers import MapValue
from policyc.verifier.bytecode.symbolic.all_runs import Ended
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.effect_claims import INSERT
from policyc.verifier.translation.policy_claims import (
    OPENER_EITHER,
    OPENER_KNOWN,
    OPENER_PROBE,
    PolicyClaims,
)
from policyc.verifier.translation.policy_runs import SCRATCH, PolicyRuns
from policyc.verifier.translation.words import Words

PROGRAMS = "pc_policy"
ON_REVOKED = "pc_on_revoked"
"""The map whose one program resets a connection; runtime/datapath/policy_run.h."""
FIRST = "pc_first_slot"
"""The map whose one program forwards a first packet; runtime/datapath/first_slot.h."""
WITH_OPENING = (6, 132)
"""TCP and SCTP."""
SWAPPED = (("tuple.saddr", "tuple.daddr"), ("tuple.sport", "tuple.dport"), ("src", "dst"))
ICMP = {4: 1, 6: 58}
"""The protocol number of ICMP by family."""
ECHO = {4: 8 << 8, 6: 128 << 8}
"""Type and code of an echo request by family."""


@dataclass(frozen=True)
class TailCallClaims:
    """Claims on a tail call of the policy program."""

    runs: PolicyRuns
    policy: PolicyClaims

    def of(self, end: Ended, call: TailCall) -> Iterator[Claim]:
        """Claims on its target, its condition, and its flow."""
        domain, guard = self.runs.domain, end.guard.term()
        if call.map == ON_REVOKED:
            yield from self._of_reset(end)
            return
        if call.map == FIRST:
            yield from self._of_first(end)
            return
        if call.map != PROGRAMS:
            yield Claim("it goes on as another program", guard)
            return
        index = domain.truncate(call.index, 32, 64)
        slot = domain.zero_extend(self.runs.field("action.policy_slot"), 8, 32)
        elsewhere = domain.no(domain.equal(index, slot, 32))
        yield Claim("it goes on as another policy", domain.both(guard, elsewhere))
        is_due = domain.both(self.policy.is_probe, self.policy.is_allowed)
        yield Claim("it decides another direction", domain.both(guard, domain.no(is_due)))
        wrong = domain.any_of(self._differs(end, self._wanted))
        yield Claim("it decides another flow", domain.both(guard, wrong))

    def _of_reset(self, end: Ended) -> Iterator[Claim]:
        """It leaves the flow in the same state as a drop."""
        domain, guard = self.runs.domain, end.guard.term()
        allowed = domain.both(guard, self.policy.is_allowed)
        yield Claim("it resets what is allowed", allowed)
        opens = domain.no(domain.equal(self.runs.field("packet.is_opening"), 0, 8))
        yield Claim("it resets what opens a connection", domain.both(guard, opens))
        opener = self.runs.field("opener")
        unsure = domain.any_of(
            domain.equal(opener, each, 8) for each in (OPENER_PROBE, OPENER_EITHER)
        )
        yield Claim("it resets what the other end may have opened", domain.both(guard, unsure))
        rule = domain.choose(
            self.policy.ingress.is_asked, self.policy.ingress.rule, self.policy.egress.rule, 32
        )
        is_unknown = domain.equal(rule, FAIL_CLOSED_RULE, 32)
        yield Claim("it resets what the policy does not know", domain.both(guard, is_unknown))
        proto = self.runs.field("tuple.proto")
        has_opening = domain.any_of(domain.equal(proto, each, 8) for each in WITH_OPENING)
        yield Claim("it resets what is no connection", domain.both(guard, domain.no(has_opening)))
        wrong = domain.any_of(self._differs(end, self._said("PC_DROP_POLICY")))
        yield Claim("it resets another flow", domain.both(guard, wrong))

    def _of_first(self, end: Ended) -> Iterator[Claim]:
        """It leaves the flow in the same state as a packet that passes."""
        domain, guard = self.runs.domain, end.guard.term()
        denied = domain.both(guard, domain.no(self.policy.is_allowed))
        yield Claim("it forwards what is denied", denied)
        opener = domain.equal(self.runs.field("opener"), OPENER_KNOWN, 8)
        is_reply = domain.no(domain.equal(self.runs.field("is_reply"), 0, 8))
        unsure = domain.either(domain.no(opener), is_reply)
        yield Claim("it forwards what the other end may have opened", domain.both(guard, unsure))
        again = domain.no(domain.equal(self.runs.field("action.entry_op"), INSERT, 8))
        yield Claim("it forwards what is no first packet", domain.both(guard, again))
        wrong = domain.any_of(self._differs(end, self._said("PC_PASS")))
        yield Claim("it forwards another flow", domain.both(guard, wrong))

    def _said(self, reason: str) -> dict[int, Bits]:
        """The bytes of the flow's reason, by offset."""
        place, size = self._place("action.reason")
        number = self.runs.source.btf.enumerators("drop_reason")[reason]
        return {place + n: number >> 8 * n & 0xFF for n in range(size)}

    def _differs(self, end: Ended, wanted: Mapping[int, Bits]) -> Iterator[Truth]:
        """For each byte of the flow: it is neither the wanted byte nor, elsewhere, the old one."""
        domain, after = self.runs.domain, end.state.memory[MapValue(SCRATCH, 0)]
        assert isinstance(after, UnknownMemory), "the scratch is"
        for at in range(after.size):
            value, due = number_in(after.load(at, 1)), wanted.get(at)
            if due is None:
                due = after.initial(at)
            yield domain.no(domain.equal(value, due, 8))

    @cached_property
    def _wanted(self) -> Mapping[int, Bits]:
        """The bytes that must change, by offset."""
        domain = self.runs.domain
        found = dict[int, Bits]()
        for one, other in SWAPPED:
            (first, size), (second, _) = self._place(one), self._place(other)
            for n in range(size):
                found[first + n], found[second + n] = self._byte(second + n), self._byte(first + n)
        is_reply = self.runs.field("is_reply")
        found[self._place("is_reply")[0]] = domain.choose(domain.equal(is_reply, 0, 8), 1, 0, 8)
        found[self._place("opener")[0]] = OPENER_EITHER
        return {**found, **self._echo}

    @cached_property
    def _echo(self) -> Mapping[int, Bits]:
        """An echo reply becomes the request."""
        domain, words = self.runs.domain, Words(self.runs.domain)
        at, size = self._place("packet.icmp")
        value: Bits = self.runs.field("packet.icmp")
        family, proto = (
            domain.zero_extend(self.runs.field(name), 8, 32)
            for name in ("tuple.family", "tuple.proto")
        )
        is_ipv4 = words.equal(family, 4)
        is_icmp = words.equal(proto, domain.choose(is_ipv4, ICMP[4], ICMP[6], 32))
        echo = domain.choose(is_ipv4, ECHO[4], ECHO[6], 16)
        value = domain.choose(is_icmp, echo, value, 16)
        return {at + n: domain.extract(value, 8 * n, 8, 16) for n in range(size)}

    def _place(self, path: str) -> tuple[int, int]:
        place = self.runs.source.btf.place("pc_flow", path)
        return place.offset, self.runs.source.btf.size(place.type)

    def _byte(self, at: int) -> Bits:
        size = self.runs.program.maps[SCRATCH].value_size
        return UnknownMemory(self.runs.domain, SCRATCH, size).initial(at)
