# SPDX-License-Identifier: Apache-2.0
"""Map seeds from the Decision IR and its plan: little-endian 32-bit words (docs/bundle-format.md)."""

import struct
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from policyc.backends.ebpf_c.addresses import column_prefixes
from policyc.backends.ebpf_c.buckets import SLOTS, fill_buckets
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import (
    AddressLayout,
    AddressPlan,
    CellLayout,
    DirectionPlan,
    LookupPlan,
    viewed_columns,
)
from policyc.ir.tree import NODE_WORDS

NODE_FIELDS = (*(f"lowest{at}" for at in range(1, 8)), *(f"child{at}" for at in range(8)), "zero")
BUCKET_FIELDS = (
    *(f"{part}{at}" for at in range(SLOTS) for part in ("column", "row")),
    *(f"word{at}" for at in range(SLOTS)),
    "filled",
    *(f"zero{at}" for at in range(3)),
)
"""Keys first, each a little-endian 64-bit number with the row above; then the words, and 1."""


@dataclass(frozen=True)
class Seed:
    """The initial contents of one map. `fields` name the words of a value."""

    map_name: str
    kind: str
    entries: int
    fields: tuple[str, ...]
    data: bytes
    key_bytes: int = 0


def make_seeds(decision: DecisionIR, plan: LookupPlan) -> tuple[Seed, ...]:
    """Every map of a generation, with what it starts from."""
    seeds: list[Seed] = []
    if plan.used_directions:
        seeds.append(Seed("pc_class", "array", plan.endpoints, plan.class_fields, b""))
    for direction in plan.used_directions:
        seeds += _cells(decision, plan, direction)
        for address in direction.addresses.values():
            seeds += _address(decision, direction, address)
    if plan.has_trees:
        words = array("I", (word for node in plan.nodes for word in node))
        assert len(words) == NODE_WORDS * plan.node_room.used
        seeds.append(
            Seed("pc_nodes", "array", plan.node_room.capacity, NODE_FIELDS, _little_endian(words))
        )
    if plan.counters.words:
        fields = ("packets_low", "packets_high", "bytes_low", "bytes_high")
        count = fields[: 2 * plan.counters.words]
        seeds.append(Seed("pc_counts", "percpu_array", plan.rules.capacity, count, b""))
    return tuple(seeds)


def _cells(decision: DecisionIR, plan: LookupPlan, direction: DirectionPlan) -> Iterator[Seed]:
    rows = viewed_words(decision, plan, direction)
    if direction.cells is CellLayout.DENSE:
        data = _dense(rows, direction)
        yield Seed(f"pc_cells_{direction.short}", "array", direction.dense_words, ("word",), data)
        return
    usual, entries = array("I", [0]), {}
    for row, words in enumerate(rows, start=1):
        default = usual_word(words)
        usual.append(default)
        for column, word in enumerate(words, start=1):
            if word != default:
                entries[row, column] = word
    buckets = fill_buckets(entries, direction.buckets)
    capacity = direction.rows.capacity
    name = f"pc_usual_{direction.short}"
    yield Seed(name, "array", capacity, ("word",), _little_endian(usual))
    flat = array("I", (word for bucket in buckets for word in bucket))
    name = f"pc_buckets_{direction.short}"
    yield Seed(name, "array", direction.buckets, BUCKET_FIELDS, _little_endian(flat))


def viewed_words(
    decision: DecisionIR, plan: LookupPlan, direction: DirectionPlan
) -> list["array[int]"]:
    """The words of every row id from 1 on, each by column id from 1 on."""
    table = decision.table(direction.direction)
    words = [plan.diagram_words[cell.rule] for cell in decision.cells]
    columns = _first_of(direction.column_ids)
    done: dict[tuple[int, ...], array[int]] = {}
    out = []
    for index in _first_of(direction.row_ids):
        row = table[index]
        if row not in done:
            done[row] = array("I", [words[row[column]] for column in columns])
        out.append(done[row])
    return out


def _first_of(ids: tuple[int, ...]) -> list[int]:
    """For each id, in their order, the first index that has it."""
    first: dict[int, int] = {}
    for index, at in enumerate(ids):
        first.setdefault(at, index)
    return [first[at] for at in sorted(first)]


def usual_word(words: "array[int]") -> int:
    """The word that most columns of a row have; the smallest of several."""
    counts: dict[int, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return min(counts, key=lambda word: (-counts[word], word))


def _dense(rows: list["array[int]"], direction: DirectionPlan) -> bytes:
    """The dense table up to the last row in use; what nobody placed is the word 0."""
    capacity = direction.columns.capacity
    out = array("I", bytes(4 * capacity))
    for words in rows:
        out.append(0)
        out.extend(words)
        out.frombytes(bytes(4 * (capacity - 1 - len(words))))
    return _little_endian(out)


def _address(
    decision: DecisionIR, direction: DirectionPlan, address: AddressPlan
) -> Iterator[Seed]:
    name = f"{address.family}_{direction.short}"
    if address.layout is AddressLayout.LPM:
        columns = viewed_columns(decision, direction.view)
        data = bytearray()
        for prefix, column in column_prefixes(decision, direction.view, address.family, columns):
            data += struct.pack("<I", prefix.prefixlen) + prefix.network_address.packed
            data += struct.pack("<I", column)
        key_bytes = 8 if address.family == 4 else 20
        yield Seed(f"pc_cidr{name}", "lpm", address.entries, ("column",), bytes(data), key_bytes)
    if address.roots:
        roots = array("I", address.roots)
        yield Seed(f"pc_root{name}", "array", len(roots), ("word",), _little_endian(roots))


def _little_endian(words: "array[int]") -> bytes:
    if sys.byteorder == "big":
        words = array("I", words)
        words.byteswap()
    return words.tobytes()
