# SPDX-License-Identifier: Apache-2.0
"""From a refutation to a packet: a flow and the map contents on which the wrong program is wrong.

For the code lemma, the solver's model holds everything: the bytes of the flow, and for each lookup
the key and the found value. For the data lemma, the fault names a row, columns, and a service or an
address.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from policyc.ir.plan import DirectionPlan, LookupPlan
from policyc.ir.policy import Direction
from policyc.ir.services import Kind
from policyc.verifier.bytecode.evaluation import evaluate, known
from policyc.verifier.bytecode.nodes import VARIABLE, Node, below
from policyc.verifier.bytecode.object import BpfObject
from policyc.verifier.bytecode.symbolic.environment import Deed
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.decision.outcome import Broken
from policyc.verifier.translation.asked_services import NUMBER_OF
from policyc.verifier.translation.code_lemma import CodeLemma, Failed
from tests.kernel.support.policy_by_executor import (
    SCRATCH,
    Entry,
)
from tests.unit.verifier.translation.generations import Made


@dataclass(frozen=True)
class Witness:
    """The scratch as the hook leaves it, and entries of maps."""

    flow: bytes
    entries: tuple[Entry, ...] = ()


def of_code(lemma: CodeLemma, failed: Failed) -> Witness:
    """The flow and the maps of a model, as far as the program looks into them."""
    return _Modelled(lemma, failed).witness()


class _Modelled:
    """Terms as numbers. A variable that the model leaves out is 0, as anything would do."""

    def __init__(self, lemma: CodeLemma, failed: Failed) -> None:
        self.runs = lemma.runs
        self.looks = (*self.runs.reads, *lemma._looks.made)
        self.failed = failed

    def value(self, term: Bits | Truth) -> int:
        """What a term is, with what was found to be the same brought together."""
        now = self.failed.together.now(term)
        nodes = below(now) if isinstance(now, Node) else []
        values = {node: 0 for node in nodes if node.op is VARIABLE}
        values.update(self.failed.model)
        evaluate(nodes, values)
        return known(now, values)

    def witness(self) -> Witness:
        size = self.runs.program.maps[SCRATCH].value_size
        memory = UnknownMemory(self.runs.domain, SCRATCH, size)
        flow = bytes(self.value(memory.initial(at)) for at in range(size))
        return Witness(flow, (*self._tables(), *self._others()))

    def _tables(self) -> Iterator[Entry]:
        """The found values of the tables that packets do not change."""
        words: dict[tuple[str, int], dict[int, int]] = {}
        for look in self.looks:
            if not self.value(look.guard.term()):
                continue
            there = words.setdefault((look.map, self.value(look.key)), {})
            if look.offset is not None:
                there.setdefault(self.value(look.offset), self.value(look.found))
            elif self.value(look.found):
                there[-1] = 1  # a trie without the prefix
        for (name, number), found in words.items():
            definition = self.runs.program.maps[name]
            key = number.to_bytes(definition.key_size, "little")
            if -1 in found or (definition.key_size == 4 and number >= definition.max_entries):
                continue
            value = bytearray(definition.value_size)
            for offset, word in found.items():
                struct.pack_into("<I", value, offset, word)
            yield name, key, bytes(value)

    def _others(self) -> Iterator[Entry]:
        """The found values of the maps that packets change: connections, fragments."""
        done: set[tuple[str, bytes]] = set()
        for deed in self.runs.deeds:
            entry = self._found(deed) if deed.what == "lookup" else None
            if entry is not None and entry[:2] not in done:
                done.add(entry[:2])
                yield entry

    def _found(self, deed: Deed) -> Entry | None:
        definition = self.runs.program.maps[deed.map]
        region = deed.region
        if definition.key_size <= 4 or region is None or not self.value(deed.guard.term()):
            return None
        number = getattr(region, "number", 0)
        # the question whether anything is there has the number behind that of what is found
        missing = self.runs.domain.truth(f"{deed.map} has no #{number + 1}")
        if self.value(missing):
            return None
        memory = UnknownMemory(self.runs.domain, f"{deed.map}#{number}", definition.value_size)
        value = bytes(self.value(memory.initial(at)) for at in range(definition.value_size))
        key = self.value(deed.key).to_bytes(definition.key_size, "little")
        return deed.map, key, value


def of_seeds(read: BpfObject, made: Made, broken: Broken) -> Iterator[Witness]:
    """Flows of the row, column and service or address that a fault of the data lemma names.

    Of an address it does not say which rows and services tell its column from the right one: all do
    that any rule diagram tells apart.
    """
    plan = made.plan
    assert broken.direction is not None, "a fault of the seeds has a direction"
    direction = plan.directions[broken.direction]
    if broken.address is not None:
        keys = sorted({lo for diagram in made.decision.diagrams for lo, _ in diagram})
        for row, key in product(range(direction.rows.used), keys):
            yield _witness(read, plan, direction, row, None, broken, key)
        return
    key = broken.key or 0
    row = direction.row_ids[broken.row] if broken.row >= 0 else 0
    for at in range(max(broken.columns.bit_length(), 1)):
        if broken.columns >> at & 1 or not broken.columns:
            column = direction.column_ids[at] if broken.columns else 0
            yield _witness(read, plan, direction, row, column, broken, key)


def _witness(
    read: BpfObject,
    plan: LookupPlan,
    direction: DirectionPlan,
    row: int,
    column: int | None,
    broken: Broken,
    key: int,
) -> Witness:
    """An end of this node in a row, the other in a column or, if that is none, at an address."""
    is_ingress = direction.direction is Direction.INGRESS
    own, peer = ("dst", "src") if is_ingress else ("src", "dst")
    family = broken.family or _family_of(key)
    fields = {
        f"{own}.id": 1,
        f"{own}.ifindex": 5,
        f"{peer}.id": 0 if column is None else 2,
        "tuple.family": family,
        "second": 100,
        "epoch": 1,
        "now": 1000,
        **_service(key),
    }
    raw = bytearray(read.maps[SCRATCH].value_size)
    for path, value in fields.items():
        place = read.btf.place("pc_flow", path)
        raw[place.offset : place.offset + place.size] = value.to_bytes(place.size, "little")
    if broken.address is not None:
        bits = 32 if family == 4 else 128
        address = broken.address.to_bytes(bits // 8, "big")
        at = read.btf.offset_of("pc_flow", "tuple.saddr" if is_ingress else "tuple.daddr")
        raw[at : at + len(address)] = address
    return Witness(bytes(raw), tuple(_classes(read, plan, direction, row, column or 0)))


def _family_of(key: int) -> int:
    return 6 if key >> 16 == Kind.ICMPV6 else 4


def _service(key: int) -> Mapping[str, int]:
    """The members of the flow that give a service key."""
    kind, value = key >> 16, key & 0xFFFF
    if kind > Kind.ICMPV6:
        return {"tuple.proto": value & 0xFF}
    number = NUMBER_OF[Kind(kind)]
    if kind in (Kind.ICMP, Kind.ICMPV6):
        return {"tuple.proto": number, "packet.icmp": value}
    return {
        "tuple.proto": number,
        "tuple.dport": int.from_bytes(value.to_bytes(2, "big"), "little"),
    }


def _classes(
    read: BpfObject, plan: LookupPlan, direction: DirectionPlan, row: int, column: int
) -> Iterator[Entry]:
    """The class of the end in the row, and that of the other in the column."""
    size = read.maps["pc_class"].value_size
    own, peer = bytearray(size), bytearray(size)
    for at, name in enumerate(plan.class_fields):
        if name == direction.class_fields[0]:
            struct.pack_into("<I", own, 4 * at, row)
        if name in direction.column_fields.values():
            struct.pack_into("<I", peer, 4 * at, column)
    for ident, value in ((1, own), (2, peer)):
        yield "pc_class", struct.pack("<I", ident), bytes(value)
