# SPDX-License-Identifier: Apache-2.0
"""The lookup plan as a function of one flow: the word that decides an end (docs/bundle-format.md).

The same code runs on numbers and on terms. With the seeds' contents it gives the verdict of the tables
on a flow. With unknown tables it gives what the bytecode has to compute, whatever the tables hold (the
code lemma).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from policyc.ir.decision import FAIL_CLOSED_RULE
from policyc.ir.plan import AddressLayout, AddressPlan, CellLayout, DirectionPlan, LookupPlan
from policyc.ir.policy import Direction
from policyc.ir.services import Kind
from policyc.ir.trees import (
    ALLOW,
    ID_MASK,
    LEAF,
    NEXT_WORD,
    NOTHING,
    RANGE,
)
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.translation.asked_services import NUMBER_OF
from policyc.verifier.translation.bucket_places import FILLED, SLOTS, bucket_places
from policyc.verifier.translation.steps import Steps
from policyc.verifier.translation.table_reading import TableReading


@dataclass(frozen=True)
class Flow:
    """The flow that a policy decides: words, and bytes and ports in host order as words.

    `src` and `dst` are endpoint ids, 0 for neither pod nor node. `saddr` and `daddr` are the four words
    of an address from the most significant on; an IPv4 address is the first.
    """

    src: Bits
    dst: Bits
    family: Bits
    number: Bits
    port: Bits
    icmp: Bits
    saddr: Sequence[Bits]
    daddr: Sequence[Bits]


@dataclass(frozen=True)
class Reading(TableReading):
    """A plan, the tables by the names of their maps with their numbers of entries, and code.

    `tries[name]` gives the column of an address's words. `codes` are the diagrams that are code, by
    their words.
    """

    plan: LookupPlan
    tries: Mapping[str, Callable[[Sequence[Bits]], Bits]]
    codes: Mapping[int, Steps]

    def service(self, flow: Flow) -> Bits:
        """The service key of the lookup."""
        a = self.words
        found = a.with_bits(Kind.OTHER << 16, flow.number)
        for kind in sorted(self.plan.distinguished, reverse=True):
            is_icmp = kind in (Kind.ICMP, Kind.ICMPV6)
            value = flow.icmp if is_icmp else flow.port
            is_it = a.equal(flow.number, NUMBER_OF[kind])
            if is_icmp:
                family = 4 if kind is Kind.ICMP else 6
                is_it = a.all_of(is_it, a.equal(flow.family, family))
            found = a.choose(is_it, a.with_bits(kind << 16, value), found)
        return found

    def verdict(self, direction: Direction, flow: Flow, service: Bits) -> Bits:
        """The word of an end's verdict; NOTHING if the plan leads nowhere."""
        plan = self.plan.directions[direction]
        if not plan.is_used:
            return LEAF | ALLOW  # allowed by rule 0, which is not isolated
        is_ingress = direction is Direction.INGRESS
        own, peer = (flow.dst, flow.src) if is_ingress else (flow.src, flow.dst)
        address = flow.saddr if is_ingress else flow.daddr
        a = self.words
        column = a.choose(
            a.equal(peer, 0),
            self._address_column(plan, flow.family, address),
            self._class_column(plan, peer, flow.family),
        )
        known = a.domain.either(a.equal(peer, 0), self._is_class(peer))
        cell = self._cell(plan, self._class(own, plan.class_fields[0]), column)
        return a.choose(
            a.all_of(self._is_class(own), known),
            self._diagram(cell, service),
            NOTHING,
        )

    def _is_class(self, endpoint: Bits) -> Truth:
        a = self.words
        return a.at_most(endpoint, self.entries["pc_class"] - 1)

    def _class(self, endpoint: Bits, name: str) -> Bits:
        at = self.plan.class_fields.index(name)
        return self.tables["pc_class"](endpoint, at)

    def _class_column(self, plan: DirectionPlan, peer: Bits, family: Bits) -> Bits:
        a, fields = self.words, plan.column_fields
        four, six = self._class(peer, fields[4]), self._class(peer, fields[6])
        return four if fields[4] == fields[6] else a.choose(a.equal(family, 4), four, six)

    def _address_column(self, plan: DirectionPlan, family: Bits, address: Sequence[Bits]) -> Bits:
        four, six = (self._column(plan, plan.addresses[f], address) for f in (4, 6))
        a = self.words
        return a.choose(a.equal(family, 4), four, six)

    def _column(self, plan: DirectionPlan, address: AddressPlan, words: Sequence[Bits]) -> Bits:
        name = f"{address.family}_{plan.short}"
        words = words[:1] if address.family == 4 else words
        match address.layout:
            case AddressLayout.CONSTANT:
                return address.runs[0][1]
            case AddressLayout.CODE:
                return self._steps(address.runs, words)
            case AddressLayout.LPM:
                return self.tries[f"pc_cidr{name}"](words)
            case _:
                return self._column_of(self._search_address(address, f"pc_root{name}", words))

    def _search_address(self, address: AddressPlan, roots: str, words: Sequence[Bits]) -> Bits:
        a = self.words
        if address.family == 6:
            return self._search_long(address, words)
        key, bits = words[0], address.root_bits
        if address.layout is AddressLayout.FANS:
            word = self._looked_up(roots, a.down(key, 16), 0)
            return self._search_fan(word, a.mask(key, 0xFFFF), address.rounds[0])
        root: Bits = address.root
        if address.roots:
            root = self._looked_up(roots, a.down(key, 32 - bits), 0)
        return self._search(root, key, address.rounds[0])

    def _search_long(self, address: AddressPlan, words: Sequence[Bits]) -> Bits:
        a = self.words
        word: Bits = address.root
        for part, (key, rounds) in enumerate(zip(words, address.rounds, strict=True)):
            if part and rounds:
                goes_on = a.has_of(word, NEXT_WORD, among=LEAF | NEXT_WORD)
                below = self._search(a.mask(word, ID_MASK), key, rounds)
                word = a.choose(goes_on, below, word)
            elif not part:
                word = self._search(word, key, rounds)
        return word

    def _column_of(self, word: Bits) -> Bits:
        a = self.words
        return a.choose(self.words.has(word, LEAF), a.mask(word, ID_MASK), 0)

    def _cell(self, plan: DirectionPlan, row: Bits, column: Bits) -> Bits:
        a = self.words
        if plan.cells is CellLayout.HASH:
            return self._hashed(plan, row, column)
        rows, columns = plan.rows.capacity, plan.columns.capacity
        inside = a.all_of(a.at_most(row, rows - 1), a.at_most(column, columns - 1))
        index = a.add(a.times(row, columns), column)
        found = self._looked_up(f"pc_cells_{plan.short}", index, 0)
        return a.choose(inside, found, NOTHING)

    def _hashed(self, plan: DirectionPlan, row: Bits, column: Bits) -> Bits:
        """`pc_hashed`: the first bucket that has the key, or the usual word of the row."""
        a, name = self.words, f"pc_buckets_{plan.short}"
        word = self._looked_up(f"pc_usual_{plan.short}", row, 0)
        for at in reversed(bucket_places(self.domain, row, column, plan.buckets)):
            found = self._in_bucket(name, at, row, column)
            word = a.choose(a.equal(found, NOTHING), word, found)
        no_key = a.domain.either(a.equal(row, 0), a.equal(column, 0))
        return a.choose(no_key, NOTHING, word)

    def _in_bucket(self, name: str, at: Bits, row: Bits, column: Bits) -> Bits:
        a = self.words
        filled = self._looked_up(name, at, FILLED)
        found = a.choose(a.equal(filled, 0), LEAF | FAIL_CLOSED_RULE, NOTHING)
        for slot in reversed(range(SLOTS)):
            has_column = a.equal(self._looked_up(name, at, 2 * slot), column)
            has_row = a.equal(self._looked_up(name, at, 2 * slot + 1), row)
            word = self._looked_up(name, at, 2 * SLOTS + slot)
            found = a.choose(a.all_of(has_column, has_row), word, found)
        return a.choose(a.at_most(at, self.entries[name] - 1), found, NOTHING)

    def _diagram(self, word: Bits, service: Bits) -> Bits:
        """`word` itself if it is a leaf, else its diagram's word for the service."""
        a = self.words
        is_range = a.has_of(word, RANGE, among=LEAF | RANGE)
        start = a.choose(is_range, self._in_range(word, service), word)
        search = self._search_fan if self.plan.has_fans else self._search
        found = search(start, service, self.plan.rounds, is_service=True)
        for name, steps in self.codes.items():
            said = self._steps(steps, (service,))
            found = a.choose(a.equal(word, name), said, found)
        return a.choose(self.words.has(word, LEAF), word, found)
