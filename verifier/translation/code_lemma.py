# SPDX-License-Identifier: Apache-2.0
"""The code lemma: the policy program of an object follows the plan, whatever its tables hold.

It holds for every flow, every time and all contents of all maps. The program passes the flows that the
plan's words allow, and drops the rest. It stores or re-decides a connection only after allow, and with
the rules that decided. It counts each rule as often as the rule decided. Maps that do not change while
the generation is in force are looked up by key (`same_terms.py`). Connection maps may hold anything at
each lookup.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain

from policyc.ir.effects import EffectBits
from policyc.ir.errors import InternalError
from policyc.ir.plan import Counters, LookupPlan
from policyc.ir.policy import Direction
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.pointers import MapValue
from policyc.verifier.bytecode.symbolic.all_runs import Ended
from policyc.verifier.bytecode.symbolic.environment import Deed
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Op, Truth
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation.asked_services import NUMBER_OF
from policyc.verifier.translation.claims import Claim, number_in
from policyc.verifier.translation.connection_claims import CONNECTIONS, ConnectionClaims
from policyc.verifier.translation.effect_claims import OF_EFFECTS, EffectClaims
from policyc.verifier.translation.flow_cases import Case, all_flows
from policyc.verifier.translation.lookups import Looks
from policyc.verifier.translation.planned_maps import map_claims
from policyc.verifier.translation.policy_claims import PolicyClaims
from policyc.verifier.translation.policy_runs import CONTEXT, CONTEXT_SIZE, SCRATCH, PolicyRuns
from policyc.verifier.translation.reading import Reading
from policyc.verifier.translation.same_terms import SameTerms
from policyc.verifier.translation.solving import (
    LIMIT_MS,
    WHOLE_LIMIT_MS,
    Model,
    Solving,
    UndecidedError,
)
from policyc.verifier.translation.steps import Steps
from policyc.verifier.translation.tail_call_claims import TailCallClaims
from policyc.verifier.translation.words import Words

PASSES, DROPS = 0xFFFFFFFF, 2
"""TC_ACT_UNSPEC and TC_ACT_SHOT, as in r0 with 32 bits."""
COUNTED = ("pc_counts", "pc_drops")
FRAGMENTS = ("pc_frag4", "pc_frag6")
PLACES = (
    *("pc_place4", "pc_place6", "pc_place4_new", "pc_place6_new"),
    *("pc_frag_place4", "pc_frag_place6"),
)
"""Quota maps: they choose the entry to evict, and let no packet pass (runtime/datapath/quota.h)."""


def is_place_given(deed: Deed) -> bool:
    """Whether the side effect is a store into such a map."""
    return deed.map in PLACES and deed.what == "store"


@dataclass(frozen=True)
class Failed:
    """A claim that does not hold, and the values of variables in a counterexample.

    The model is one that tables can have, over the terms of the case after they were unified
    (`together`).
    """

    claim: Claim
    case: Case
    model: Model
    together: SameTerms = field(compare=False, repr=False)


@dataclass
class CodeLemma:
    """The lemma about one program. `codes` gives the diagrams that code words must implement."""

    runs: PolicyRuns
    plan: LookupPlan
    codes: Mapping[int, Steps]
    solver: Choice = Choice.BITWUZLA
    """The solvers; if there are two and they disagree, neither is trusted."""

    def failed(self) -> Iterator[Failed]:
        """The claims that do not hold, each as soon as it is known.

        InternalError if the solver gives up.
        """
        claims = list(self.claims())
        cases = [self.flows]
        while cases:
            case = cases.pop(0)
            try:
                together = self.brought_together(case)
                broken = together.broken(claims)
                first = next(broken, None)
                if first and together.gave_up and case.parts:
                    cases += case.parts  # lookups that were not unified may be the only fault
                elif first:
                    for claim, model in chain([first], broken):
                        yield Failed(claim, case, model, together)
            except UndecidedError as gave_up:
                if not case.parts:
                    raise InternalError(f"{case.title}: {gave_up}") from gave_up
                cases += case.parts

    @cached_property
    def flows(self) -> Case:
        """All flows, with the cases that are used if a solver gives up."""
        told = sorted(NUMBER_OF[kind] for kind in self.plan.distinguished)
        return all_flows(self.runs, told)

    def brought_together(self, case: Case) -> SameTerms:
        """The program's lookups unified with the reading's, for the flows of a case."""
        _ = self.policy, self._effects.may_be_limited, self._effects.may_be_logged  # they look
        limit = WHOLE_LIMIT_MS if case.parts else LIMIT_MS
        found = SameTerms(self.runs.domain, case, Solving(self.solver, limit))
        found.bring_together(self.runs.reads, self._looks.made)
        return found

    @cached_property
    def policy(self) -> PolicyClaims:
        """The required decision."""
        reading, flow = self._reading, self.runs.flow
        service = reading.service(flow)
        words = {each: reading.verdict(each, flow, service) for each in Direction}
        binds_own_node = bool(self.plan.effects & EffectBits.OWN_NODE)
        return PolicyClaims(self.runs, words, self.plan.rules.capacity, self._looks, binds_own_node)

    @cached_property
    def _effects(self) -> EffectClaims:
        return EffectClaims(self.runs, self.policy)

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
        """The column of an address: that of its longest prefix, 0 if no prefix contains it."""
        domain, look = self.runs.domain, self._looks.look

        def column(words: Sequence[Bits]) -> Bits:
            bits = 8 * key_size - 32
            address = [(domain.swap(word, 32), 32) for word in words]
            key = domain.concat([(bits, 32), *address])
            return domain.choose(look(name, key, None), 0, look(name, key, 0), 32)

        return column

    def claims(self) -> Iterator[Claim]:
        """All claims."""
        connections = ConnectionClaims(self.runs, self.policy)
        yield from map_claims(self.runs.program, self.plan)
        for end in self.runs.ends:
            yield from self._of_end(end)
        yield from self._of_places()
        for deed in self.runs.deeds:
            if is_place_given(deed):
                continue
            if deed.map in CONNECTIONS:
                yield from connections.of(deed)
            elif deed.map in OF_EFFECTS and deed.what != "lookup":
                yield from self._effects.of(deed)
            elif deed.what != "lookup":
                yield from self._of_other(deed)
        if self.plan.counters is not Counters.NONE:
            yield self._counts()

    def _of_places(self) -> Iterator[Claim]:
        """Entries are evicted after allow alone: one claim, of many stores."""
        domain = self.runs.domain
        given = [deed for deed in self.runs.deeds if is_place_given(deed)]
        changed: Truth = False
        for deed in given:
            changed = domain.either(changed, deed.guard.term())
        if given:
            never = domain.both(changed, domain.no(self.policy.is_allowed))
            yield Claim("a place of a table is given away for a denied flow", never, given[0].at)

    def _of_other(self, deed: Deed) -> Iterator[Claim]:
        """Counters are incremented; a fragment is stored after allow, in place of another one.

        All other maps are unchanged.
        """
        guard = deed.guard.term()
        if deed.map in COUNTED and deed.what == "store":
            yield from self._of_count(deed)
        elif deed.map in FRAGMENTS and deed.what == "update":
            domain = self.runs.domain
            never = domain.both(guard, domain.no(self.policy.is_allowed))
            yield Claim("fragments of a denied packet are let pass", never, deed.at)
        elif deed.map not in FRAGMENTS or deed.what != "delete":
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
        wrong = domain.both(guard, domain.no(domain.equal(number_in(deed.value), due, 64)))
        yield Claim(f"{deed.map} is counted by something else", wrong, deed.at)

    def _of_end(self, end: Ended) -> Iterator[Claim]:
        guard = end.guard.term()
        if isinstance(end.result, TailCall):
            yield from TailCallClaims(self.runs, self.policy).of(end, end.result)
            return
        domain, allowed = self.runs.domain, self.policy.is_allowed
        all_of, no = self._words.all_of, domain.no
        result, reason = (
            domain.truncate(end.result, 32, 64),
            self._left_in_flow(end, "action.reason"),
        )
        passes, drops = (self._words.equal(result, each) for each in (PASSES, DROPS))
        said = {name: self._words.equal(reason, each) for name, each in self._reasons.items()}
        denied, full = said["PC_DROP_POLICY"], said["PC_DROP_CT_FULL"]
        yield Claim("it passes what is denied", all_of(guard, passes, no(allowed)))
        yield Claim("it neither passes nor drops", all_of(guard, no(passes), no(drops)))
        probe = self.policy.is_probe
        yield Claim("it passes what one reading allows", all_of(guard, passes, probe))
        other_reason = no(domain.same(passes, said["PC_PASS"]))
        yield Claim("it says another reason", all_of(guard, other_reason))
        # If the tail call fails, the flow is swapped already, and is dropped.
        is_turned = all_of(probe, allowed)
        is_changed = all_of(guard, no(is_turned), self._is_changed(end))
        yield Claim("it leaves the flow as another one", is_changed)
        limited = all_of(said["PC_DROP_LIMIT"], self._effects.may_be_limited)
        yield Claim(
            "it drops what is allowed",
            all_of(guard, allowed, no(probe), no(passes), no(full), no(limited)),
        )
        yield Claim("a denial has another reason", all_of(guard, no(allowed), no(denied)))

    def _is_changed(self, end: Ended) -> Truth:
        """A field of the flow other than the reason differs from what the hook stored."""
        btf, region = self.runs.source.btf, MapValue(SCRATCH, 0)
        place = btf.place("pc_flow", "action.reason")
        after = end.state.memory[region]
        assert isinstance(after, UnknownMemory), "the scratch is"
        own = range(place.offset, place.offset + btf.size(place.type))
        domain = self.runs.domain
        return domain.any_of(
            domain.no(domain.equal(number_in(after.load(at, 1)), after.initial(at), 8))
            for at in range(after.size)
            if at not in own
        )

    @cached_property
    def _reasons(self) -> Mapping[str, int]:
        return self.runs.source.btf.enumerators("drop_reason")

    def _left_in_flow(self, end: Ended, path: str) -> Bits:
        place = self.runs.source.btf.place("pc_flow", path)
        return number_in(end.state.memory[MapValue(SCRATCH, 0)].load(place.offset, 4))

    @cached_property
    def _words(self) -> Words:
        return Words(self.runs.domain)

    def _counts(self) -> Claim:
        """For any rule: it is counted as often as it decided."""
        domain = self.runs.domain
        rule = domain.variable("any rule", 32)
        keys = {
            deed.region: deed.key
            for deed in self.runs.deeds
            if deed.map == "pc_counts" and deed.what == "lookup"
        }
        made = [
            domain.both(deed.guard.term(), self._words.equal(keys[deed.region], rule))
            for deed in self.runs.deeds
            if deed.map == "pc_counts" and deed.what == "store" and deed.offset == 0
        ]
        due = [
            domain.both(when, self._words.equal(decider, rule))
            for when, decider in self.policy.counted
        ]
        bits = max(len(made), len(due)).bit_length()
        differ = domain.no(domain.equal(_sum(domain, made, bits), _sum(domain, due, bits), bits))
        return Claim("a rule is not counted as often as it decided", differ)


def _sum(domain: TermDomain, truths: Sequence[Truth], bits: int) -> Bits:
    """The number of true conditions, fewer than 2^bits."""
    found: Bits = 0
    for truth in truths:
        one = domain.choose(truth, 1, 0, bits)
        found = domain.binary(Op.ADD, found, one, bits)
    return found


def _look(looks: Looks, name: str, entry: Bits, word: Bits) -> Bits:
    return looks.look(name, entry, Words(looks.domain).times(word, 4))
