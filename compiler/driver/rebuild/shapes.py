# SPDX-License-Identifier: Apache-2.0
"""Frames, the seeds of addresses, and verdicts, as JSON values and bytes, and back."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from policyc.backends.ebpf_c.frames import Frame, Frames
from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.rebuild.stretches import FileOfPolicies, Stretches
from policyc.ir.decision import Diagram
from policyc.ir.plan import AddressLayout, AddressPlan, Size
from policyc.ir.policy import Direction
from policyc.ir.services import Kind
from policyc.ir.tree import NODE_WORDS
from policyc.ir.viewed import Parts, ViewedRow, ViewedTable, little_endian
from policyc.ir.views import View

Blobs = list[bytes | memoryview]
"""The bytes that JSON values name by their place in the list."""
_LARGE = 1 << 16


def kept(blobs: Blobs, data: bytes) -> int:
    """The place of these bytes in the list, to which they are added; large ones once."""
    if len(data) >= _LARGE and data in blobs:
        return blobs.index(data)
    blobs.append(data)
    return len(blobs) - 1


def _words(data: bytes | memoryview) -> "array[int]":
    found = array("I")
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def texts_json(texts: Sequence[str], blobs: Blobs) -> list[int]:
    """Texts as JSON values: the quotes in them would make JSON strings slow to read."""
    lengths = array("I", map(len, texts))
    return [kept(blobs, little_endian(lengths)), kept(blobs, "".join(texts).encode())]


def texts_from(value: list[int], blobs: Blobs) -> Iterator[str]:
    """The texts that `texts_json` wrote."""
    lengths, data = (blobs[at] for at in value)
    text, at = str(data, "utf-8"), 0
    for length in _words(lengths):
        yield text[at : at + length]
        at += length


def file_json(file: FileOfPolicies, blobs: Blobs) -> list[Any]:
    """A file of something of each policy as JSON values."""
    ends = little_endian(array("I", file.items.ends))
    parts = (file.head, ends, file.items.data, file.tail)
    return [file.items.separator, *(kept(blobs, bytes(part)) for part in parts)]


def file_from(value: list[Any], blobs: Blobs) -> FileOfPolicies:
    """The file that `file_json` wrote."""
    separator, *places = value
    head, ends, data, tail = (blobs[at] for at in places)
    return FileOfPolicies(head, Stretches(_words(ends), data, separator), tail)


def frames_json(frames: Frames, blobs: Blobs) -> dict[str, Any]:
    """The frames as JSON values."""
    nodes = array("I", chain.from_iterable(frames.nodes))
    return {
        "nodes": kept(blobs, little_endian(nodes)),
        "told_apart": sorted(frames.told_apart),
        "directions": {d.value: _frame(frame, blobs) for d, frame in frames.directions.items()},
    }


def frames_from(value: dict[str, Any], blobs: Blobs) -> Frames:
    """The frames that `frames_json` wrote, without the choices that led to them."""
    words = _words(blobs[value["nodes"]])
    nodes = tuple(zip(*[iter(words)] * NODE_WORDS, strict=True))
    directions = {d: _frame_from(d, value["directions"][d.value], blobs) for d in Direction}
    return Frames(directions, nodes, frozenset(map(Kind, value["told_apart"])))


def _frame(frame: Frame, blobs: Blobs) -> list[Any]:
    v = frame.view
    return [
        [v.is_used, *(f"{m:x}" for m in (v.subject_bits, v.peer_bits, v.blocks, v.ports))],
        [frame.rows.used, frame.rows.capacity, frame.columns.used, frame.columns.capacity],
        frame.row_ids,
        frame.column_ids,
        [_address(address, blobs) for address in frame.addresses.values()],
    ]


def _frame_from(direction: Direction, value: list[Any], blobs: Blobs) -> Frame:
    (is_used, *masks), sizes, row_ids, column_ids, addresses = value
    subject, peer, blocks, ports = (int(mask, 16) for mask in masks)
    view = View(
        direction, is_used, subject_bits=subject, peer_bits=peer, blocks=blocks, ports=ports
    )
    plans = [_address_from(address, blobs) for address in addresses]
    return Frame(
        direction,
        view,
        Size(*sizes[:2]),
        Size(*sizes[2:]),
        tuple(row_ids),
        tuple(column_ids),
        {plan.family: plan for plan in plans},
    )


def _address(plan: AddressPlan, blobs: Blobs) -> list[Any]:
    runs = [[f"{first:x}", column] for first, column in plan.runs]
    return [
        *(plan.family, plan.layout.value, runs, plan.root_bits, plan.root),
        *(kept(blobs, little_endian(array("I", plan.roots))), plan.rounds, plan.entries),
    ]


def _address_from(value: list[Any], blobs: Blobs) -> AddressPlan:
    family, layout, runs, root_bits, root, roots, rounds, entries = value
    return AddressPlan(
        family,
        AddressLayout(layout),
        tuple((int(first, 16), column) for first, column in runs),
        root_bits,
        root,
        _words(blobs[roots]),
        tuple(rounds),
        entries,
    )


def seeds_json(seeds: Sequence[Seed], blobs: Blobs) -> list[list[Any]]:
    """Seeds as JSON values."""
    return [
        [s.map_name, s.kind, s.entries, s.fields, kept(blobs, s.data), s.key_bytes] for s in seeds
    ]


def seeds_from(value: list[list[Any]], blobs: Blobs) -> list[Seed]:
    """The seeds that `seeds_json` wrote."""
    return [
        Seed(name, kind, entries, tuple(fields), bytes(blobs[data]), key_bytes)
        for name, kind, entries, fields, data, key_bytes in value
    ]


def diagrams_json(diagrams: Sequence[Diagram], blobs: Blobs) -> list[int]:
    """Diagrams as JSON values."""
    lengths = array("I", map(len, diagrams))
    steps = array("I", chain.from_iterable(chain.from_iterable(diagrams)))
    return [kept(blobs, little_endian(lengths)), kept(blobs, little_endian(steps))]


def diagrams_from(value: list[int], blobs: Blobs) -> Iterator[Diagram]:
    """The diagrams that `diagrams_json` wrote."""
    lengths, steps = (_words(blobs[at]) for at in value)
    pairs = tuple(zip(steps[::2], steps[1::2], strict=True))
    at = 0
    for length in lengths:
        yield pairs[at : at + length]
        at += length


def table_json(table: ViewedTable, blobs: Blobs) -> dict[str, Any]:
    """A table as JSON values."""
    return {"of_row": table.of_row, "rows": [_row(row, blobs) for row in table.rows]}


def table_from(value: dict[str, Any], blobs: Blobs) -> ViewedTable:
    """The table that `table_json` wrote."""
    return ViewedTable(
        tuple(_row_from(row, blobs) for row in value["rows"]), tuple(value["of_row"])
    )


def _row(row: ViewedRow, blobs: Blobs) -> list[Any]:
    is_narrow = isinstance(row.parts, bytes)
    data = row.parts if isinstance(row.parts, bytes) else little_endian(row.parts)
    return [row.cells, row.counts, is_narrow, kept(blobs, data)]


def _row_from(value: list[Any], blobs: Blobs) -> ViewedRow:
    cells, counts, is_narrow, at = value
    parts: Parts = bytes(blobs[at]) if is_narrow else _words(blobs[at])
    return ViewedRow(tuple(cells), parts, tuple(counts))
