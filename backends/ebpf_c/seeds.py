# SPDX-License-Identifier: Apache-2.0
"""Map seeds from the Decision IR and its plan: little-endian 32-bit words (docs/bundle-format.md)."""

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count

from policyc.backends.ebpf_c.addresses import column_prefixes
from policyc.backends.ebpf_c.buckets import SLOTS, fill_buckets
from policyc.ir.decision import DecisionIR
from policyc.ir.effects import EffectBits
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import (
    FIRST_ROW,
    AddressLayout,
    AddressPlan,
    CellLayout,
    DirectionPlan,
    LookupPlan,
    viewed_columns,
)
from policyc.ir.policy import Direction
from policyc.ir.trees import NODE_WORDS
from policyc.ir.viewed import Verdicts, ViewedTable, little_endian, verdicts_of

NODE_FIELDS = (*(f"lowest{at}" for at in range(1, 8)), *(f"child{at}" for at in range(8)), "zero")
BUCKET_FIELDS = (
    *(f"{part}{at}" for at in range(SLOTS) for part in ("column", "row")),
    *(f"word{at}" for at in range(SLOTS)),
    "filled",
    *(f"zero{at}" for at in range(3)),
)
"""Keys first, each a little-endian 64-bit number: column, then row. Then the words, and 1."""

EFFECT_FIELDS = ("kinds", "rule", "every_low", "every_high", "slack_low", "slack_high")
_EFFECT = struct.Struct("<IIQQ")
LIMITED_SOURCES = 65536
EVENT_PACES = 4096
"""The capacity for pairs of a rule and a source: PC_LIMITED of runtime/datapath/limit.h."""
ANSWER_FIELDS = tuple(
    f"{part}_{half}" for part in ("due", "sent", "withheld") for half in ("low", "high")
)

EVENT_BYTES = 262144
"""The room for unread events: PC_EVENT_BYTES of runtime/datapath/events.h."""
EVENT_COUNT_FIELDS = tuple(
    f"{part}_{half}" for part in ("due", "written", "withheld", "lost") for half in ("low", "high")
)

Data = bytes | bytearray
"""The bytes of a file: large ones are not copied."""


@dataclass(frozen=True)
class Seed:
    """The initial contents of one map. `fields` name the words of a value."""

    map_name: str
    kind: str
    entries: int
    fields: tuple[str, ...]
    data: Data
    key_bytes: int = 0


def make_seeds(
    decision: DecisionIR, plan: LookupPlan, verdicts: Verdicts | None = None
) -> tuple[Seed, ...]:
    """Every map of a generation, with its initial contents."""
    ids = {each.direction: (each.row_ids, each.column_ids) for each in plan.used_directions}
    addresses = {
        direction.direction: [
            seed
            for address in direction.addresses.values()
            for seed in address_seeds(decision, direction, address)
        ]
        for direction in plan.used_directions
    }
    return seeds_of(verdicts or verdicts_of(decision, ids), plan, addresses)


CONNECT_SEED = Seed("pc_conn_epoch", "hash", 1, ("is_own",), b"", 4)
"""The map of the hooks at connect()."""


def seeds_of(
    verdicts: Verdicts, plan: LookupPlan, addresses: Mapping[Direction, Sequence[Seed]]
) -> tuple[Seed, ...]:
    """As `make_seeds`, with the `address_seeds` of each direction given."""
    seeds: list[Seed] = []
    if plan.used_directions:
        seeds.append(Seed("pc_class", "array", plan.endpoints, plan.class_fields, b""))
    for direction in plan.used_directions:
        seeds += _cells(verdicts.tables[direction.direction], plan, direction)
        seeds += addresses[direction.direction]
    if plan.has_trees:
        words = array("I", chain.from_iterable(plan.nodes))
        assert len(words) == NODE_WORDS * plan.node_room.used
        seeds.append(
            Seed("pc_nodes", "array", plan.node_room.capacity, NODE_FIELDS, little_endian(words))
        )
    if plan.counters.words:
        fields = ("packets_low", "packets_high", "bytes_low", "bytes_high")
        count = fields[: 2 * plan.counters.words]
        seeds.append(Seed("pc_counts", "percpu_array", plan.rules.capacity, count, b""))
    seeds.append(Seed("pc_on_revoked", "prog_array", 1, ("program",), b""))
    seeds += _effects(verdicts, plan)
    return tuple(seeds)


def _effects(verdicts: Verdicts, plan: LookupPlan) -> Iterator[Seed]:
    """The effects of rules by their ids, and the maps that rejects, limits and events need."""
    if not plan.effects:
        return
    data = bytearray(_EFFECT.size * (max(verdicts.effects) + 1))
    for rule, effects in verdicts.effects.items():
        asked = (effects.bits, effects.rule, effects.every, effects.slack)
        _EFFECT.pack_into(data, _EFFECT.size * rule, *asked)
    yield Seed("pc_effects", "array", plan.rules.capacity, EFFECT_FIELDS, bytes(data))
    if plan.effects & EffectBits.REJECT:
        yield Seed("pc_quotes", "percpu_array", 1, (), b"")
        yield Seed("pc_answers", "percpu_array", 1, ANSWER_FIELDS, b"")
    if plan.effects & EffectBits.LIMIT:
        for name in ("pc_limits", "pc_limits_out"):
            yield Seed(name, "lru_hash", LIMITED_SOURCES, ("due_low", "due_high"), b"", 24)
    if plan.effects & EffectBits.LOG:
        yield Seed("pc_events", "ringbuf", EVENT_BYTES, (), b"")
        yield Seed("pc_event_paces", "lru_hash", EVENT_PACES, ("due_low", "due_high"), b"", 4)
        yield Seed("pc_event_count", "percpu_array", 1, EVENT_COUNT_FIELDS, b"")


def _cells(table: ViewedTable, plan: LookupPlan, direction: DirectionPlan) -> Iterator[Seed]:
    if direction.cells is CellLayout.DENSE:
        data = _dense(table, plan, direction)
        yield Seed(f"pc_cells_{direction.short}", "array", direction.dense_words, ("word",), data)
        return
    usual, entries = array("I", [0]), {}
    for row, at in enumerate(table.of_row, start=1):
        cells = table.rows[at]
        words = [plan.cell_words[cell] for cell in cells.cells]
        default = usual_word(words, cells.counts)
        usual.append(default)
        for column, part in enumerate(cells.parts, start=1):
            if words[part] != default:
                entries[row, column] = words[part]
    buckets = fill_buckets(entries, direction.buckets)
    capacity = direction.rows.capacity
    name = f"pc_usual_{direction.short}"
    yield Seed(name, "array", capacity, ("word",), little_endian(usual))
    flat = array("I", chain.from_iterable(buckets))
    name = f"pc_buckets_{direction.short}"
    yield Seed(name, "array", direction.buckets, BUCKET_FIELDS, little_endian(flat))


def usual_word(words: Sequence[int], counts: Sequence[int]) -> int:
    """The most frequent word of a row's columns; the smallest of several."""
    return min(zip(words, counts, strict=True), key=lambda pair: (-pair[1], pair[0]))[0]


def _dense(table: ViewedTable, plan: LookupPlan, direction: DirectionPlan) -> bytearray:
    """The dense table up to the last row in use; a pair without a cell has the word 0."""
    size = 4 * direction.columns.capacity
    out = bytearray(size * (len(table.of_row) + FIRST_ROW))
    places: dict[int, int] = {}
    for place, row in zip(count(FIRST_ROW * size, size), table.of_row, strict=False):
        if row in places:
            out[place : place + size] = out[places[row] : places[row] + size]
        else:
            places[row] = place
            table.rows[row].put_words(plan.cell_words, out, place)
    return out


def address_seeds(
    decision: DecisionIR, direction: DirectionPlan, address: AddressPlan
) -> Iterator[Seed]:
    """The tables in which the columns of a family's addresses are looked up, beside the nodes."""
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
        yield Seed(f"pc_root{name}", "array", len(roots), ("word",), little_endian(roots))
