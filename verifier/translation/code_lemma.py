# SPDX-License-Identifier: Apache-2.0
"""The code lemma: the policy program of an object does what the plan says, whatever its tables hold.

For every flow, every time and every contents of all maps: it passes what the plan's words allow, and
drops the rest; no connection is stored, nor decided again, but after allow, and with the rules that
decided; and each rule is counted as often as it decided. Maps that nobody changes meanwhile are looked
into by key (`congruence.py`); connections may be anything at each look.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from policyc.ir.plan import Counters, LookupPlan
from policyc.ir.policy import Direction
from policyc.ir.universe import FAMILIES
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.pointers import MapValue
from policyc.verifier.bytecode.symbolic.running import Ended
from policyc.verifier.bytecode.symbolic.surroundings import Deed
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.values import Bits, Op
from policyc.verifier.translation.asked import NUMBER_OF
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.congruence import Congruence, Looks
from policyc.verifier.translation.connection_claims import CONNECTIONS, ConnectionClaims
from policyc.verifier.translation.planned_maps import map_claims
from policyc.verifier.translation.policy_claims import PolicyClaims
from policyc.verifier.translation.policy_runs import CONTEXT, CONTEXT_SIZE, SCRATCH, PolicyRuns
from policyc.verifier.translation.reading import Reading
from policyc.verifier.translation.steps import Steps
from policyc.verifier.translation.words import Words
from policyc.verifier.z3_when_used import z3

PASSES, DROPS = 0xFFFFFFFF, 2
"""TC_ACT_UNSPEC and TC_ACT_SHOT, as r0 has them in 32 bits."""
COUNTED = ("pc_counts", "pc_drops")
FRAGMENTS = ("pc_frag4", "pc_frag6")


@dataclass(frozen=True)
class Case:
    """Some flows: what variables are of all of them, and what else is so of all of them."""

    title: str
    known: tuple[tuple[Any, Any], ...]
    facts: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Failed:
    """A claim that does not hold, with Z3's model of a flow and tables for which it does not."""

    claim: Claim
    case: Case
    model: Any


@dataclass
class CodeLemma:
    """The lemma about one program. `codes` is what the words that are code have to say."""

    runs: PolicyRuns
    plan: LookupPlan
    codes: Mapping[int, Steps]

    def failed(self) -> Iterator[Failed]:
        """The claims that do not hold. InternalError where the solver gives up."""
        claims = list(self.claims())
        for case in self.cases():
            together = self.brought_together(case)
            never = [together.now(claim.never) for claim in claims]
            if together.model(z3.Or(*never)) is None:
                continue
            for claim, term in zip(claims, never, strict=True):
                model = together.model(term)
                if model is not None:
                    yield Failed(claim, case, model)

    def cases(self) -> Iterator[Case]:
        """Flows of one family and one kind of service each: together they are all flows."""
        told = {NUMBER_OF[kind] for kind in self.plan.told_apart}
        family, number = (
            self.runs.domain.lift(self.runs.field(path), 8) for path in ("t.family", "t.proto")
        )
        rest = [number != each for each in sorted(told)]
        for version in FAMILIES:
            of_family = family, z3.BitVecVal(version, 8)
            for each in sorted(told):
                known = (of_family, (number, z3.BitVecVal(each, 8)))
                yield Case(f"IPv{version}, protocol {each}", known)
            yield Case(f"IPv{version}, any other protocol", (of_family,), tuple(rest))

    def brought_together(self, case: Case) -> Congruence:
        """The program's looks and those of the reading, of the flows of a case."""
        found = Congruence(self.runs.domain, case.facts, case.known)
        _ = self.policy  # which makes the looks of the reading
        found.bring_together(self.runs.reads, self._looks.made)
        return found

    @cached_property
    def policy(self) -> PolicyClaims:
        """What has to be decided."""
        reading, flow = self._reading, self.runs.flow
        service = reading.service(flow)
        words = {each: reading.verdict(each, flow, service) for each in Direction}
        return PolicyClaims(self.runs, words, self.plan.rules.capacity)

    @cached_property
    def _looks(self) -> Looks:
        return Looks(self.runs.domain)

    @cached_property
    def _reading(self) -> Reading:
        maps = self.runs.program.maps
        entries = {name: each.max_entries for name, each in maps.items()}
        tables = {name: partial(_look, self._looks, name) for name in maps}
        tries = {
            name: self._trie(name, each.key_size)
            for name, each in maps.items()
            if name.startswith("pc_cidr")
        }
        return Reading(self.runs.domain, tables, entries, self.plan, tries, self.codes)

    def _trie(self, name: str, key_size: int) -> Callable[[Sequence[Bits]], Bits]:
        """The column of an address: its longest prefix's, 0 where none has it."""
        domain, look = self.runs.domain, self._looks.look

        def column(words: Sequence[Bits]) -> Bits:
            bits = 8 * key_size - 32
            address = [(domain.swap(word, 32), 32) for word in words]
            key = domain.concat([(bits, 32), *address])
            return domain.choose(look(name, key, None), 0, look(name, key, 0), 32)

        return column

    def claims(self) -> Iterator[Claim]:
        """All that must never be."""
        connections = ConnectionClaims(self.runs, self.policy)
        yield from map_claims(self.runs.program, self.plan)
        for end in self.runs.ends:
            yield from self._of_end(end)
        for deed in self.runs.deeds:
            if deed.map in CONNECTIONS:
                yield from connections.of(deed)
            elif deed.what != "lookup":
                yield from self._of_other(deed)
        if self.plan.counters is not Counters.NONE:
            yield self._counts()

    def _of_other(self, deed: Deed) -> Iterator[Claim]:
        """Counters are counted up; a fragment is remembered after allow; all else is left alone."""
        guard = deed.guard.term()
        if deed.map in COUNTED and deed.what == "store":
            yield from self._of_count(deed)
        elif deed.map in FRAGMENTS and deed.what == "update":
            never = z3.And(guard, z3.Not(self.policy.is_allowed))
            yield Claim("fragments of a denied packet are let pass", never, deed.at)
        else:
            yield Claim(f"{deed.map} is changed", guard, deed.at)

    def _of_count(self, deed: Deed) -> Iterator[Claim]:
        """Packets by one; bytes by the packet's length, which is the first word of the context."""
        domain, guard = self.runs.domain, deed.guard.term()
        if deed.before is None or deed.size != 8 or deed.offset not in (0, 8):
            yield Claim(f"{deed.map} is not counted in whole words", guard, deed.at)
            return
        length = UnknownMemory(domain, CONTEXT, CONTEXT_SIZE).load(0, 4)
        more = 1 if deed.offset == 0 else domain.zero_extend(number_in(length), 32, 64)
        due = domain.binary(Op.ADD, number_in(deed.before.load(deed.offset, 8)), more, 64)
        wrong = domain.lift(number_in(deed.value), 64) != domain.lift(due, 64)
        yield Claim(f"{deed.map} is counted by something else", z3.And(guard, wrong), deed.at)

    def _of_end(self, end: Ended) -> Iterator[Claim]:
        allowed = self.policy.is_allowed
        guard = end.guard.term()
        if isinstance(end.result, TailCall):
            yield Claim("it goes on as another program", guard)
            return
        result = z3.Extract(31, 0, self.runs.domain.lift(end.result, 64))
        passes, drops = result == PASSES, result == DROPS
        reason = self._left_in_flow(end, "reason")
        said = self._reasons
        yield Claim("it passes what is denied", z3.And(guard, passes, z3.Not(allowed)))
        yield Claim("it neither passes nor drops", z3.And(guard, z3.Not(passes), z3.Not(drops)))
        yield Claim("it says another reason", z3.And(guard, passes != (reason == said["PC_PASS"])))
        yield Claim("it leaves the flow as another one", z3.And(guard, self._is_changed(end)))
        denied = reason == said["PC_DROP_POLICY"]
        full = reason == said["PC_DROP_CT_FULL"]
        yield Claim("it drops what is allowed", z3.And(guard, allowed, z3.Not(z3.Or(passes, full))))
        yield Claim("a denial has another reason", z3.And(guard, z3.Not(allowed), z3.Not(denied)))

    def _is_changed(self, end: Ended) -> Any:
        """Anything of the flow but the reason is not as the hook left it."""
        btf, region = self.runs.source.btf, MapValue(SCRATCH, 0)
        place = btf.place("pc_flow", "reason")
        after = end.state.memory[region]
        assert isinstance(after, UnknownMemory), "the scratch is"
        own = range(place.offset, place.offset + btf.size(place.type))
        domain = self.runs.domain
        return z3.Or(
            *(
                domain.lift(number_in(after.load(at, 1)), 8) != after.initial(at)
                for at in range(after.size)
                if at not in own
            )
        )

    @cached_property
    def _reasons(self) -> Mapping[str, int]:
        return self.runs.source.btf.enumerators("drop_reason")

    def _left_in_flow(self, end: Ended, path: str) -> Any:
        place = self.runs.source.btf.place("pc_flow", path)
        value = end.state.memory[MapValue(SCRATCH, 0)].load(place.offset, 4)
        return self.runs.domain.lift(number_in(value), 32)

    def _counts(self) -> Claim:
        """For any rule: it is counted as often as it decided."""
        rule = z3.BitVec("any rule", 32)
        keys = {
            deed.region: deed.key
            for deed in self.runs.deeds
            if deed.map == "pc_counts" and deed.what == "lookup"
        }
        made = [
            z3.And(deed.guard.term(), self.runs.domain.lift(keys[deed.region], 32) == rule)
            for deed in self.runs.deeds
            if deed.map == "pc_counts" and deed.what == "store" and deed.offset == 0
        ]
        due = [z3.And(when, decider == rule) for when, decider in self.policy.counted]
        return Claim("a rule is not counted as often as it decided", _sum(made) != _sum(due))


def _sum(truths: Sequence[Any]) -> Any:
    """How many are true, in eight bits."""
    found = z3.BitVecVal(0, 8)
    for truth in truths:
        found = found + z3.If(truth, z3.BitVecVal(1, 8), z3.BitVecVal(0, 8))
    return found


def _look(looks: Looks, name: str, entry: Bits, word: Bits) -> Bits:
    offset: Any = Words(looks.domain).times(word, 4)
    found: Bits = looks.look(
        name, entry, offset if isinstance(offset, int) else z3.simplify(offset)
    )
    return found
