# SPDX-License-Identifier: Apache-2.0
"""Frames, the seeds of addresses, and verdicts, as JSON values and bytes, and back."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, count
from typing import Any

from policyc.backends.ebpf_c.frames import Frame, Frames
from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.rebuild.documents import DIGEST_BYTES, KnownDocument
from policyc.compiler.driver.rebuild.splicing import (
    FileOfPolicies,
    Stretches,
)
from policyc.ir.decision import Diagram
from policyc.ir.plan import AddressLayout, AddressPlan, Size
from policyc.ir.policy import Direction
from policyc.ir.services import Kind
from policyc.ir.trees import NODE_WORDS
from policyc.ir.viewed import Parts, ViewedRow, ViewedTable, little_endian
from policyc.ir.views import View

Blobs = list[bytes | memoryview]
"""The bytes that JSON values refer to by index."""
_LARGE = 1 << 16
_NARROW, _WIDE = 1, 4
"""The size in bytes of one part index of a row."""


def kept(blobs: Blobs, data: bytes) -> int:
    """Append these bytes to the list and return their index; large ones are stored once."""
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


def words_json(words: Iterable[int], blobs: Blobs) -> int:
    """Numbers of 32 bits as a JSON value."""
    return kept(blobs, little_endian(array("I", words)))


def words_from(value: int, blobs: Blobs) -> "array[int]":
    """The numbers that `words_json` wrote."""
    return _words(blobs[value])


def numbers_json(numbers: Iterable[int], blobs: Blobs) -> list[int]:
    """Numbers of any size, not below zero, as JSON values."""
    parts = [number.to_bytes((number.bit_length() + 7) // 8, "little") for number in numbers]
    return [words_json(accumulate(map(len, parts)), blobs), kept(blobs, b"".join(parts))]


def numbers_from(value: list[int], blobs: Blobs) -> Iterator[int]:
    """The numbers that `numbers_json` wrote."""
    ends, place = value
    data, begin = bytes(blobs[place]), 0
    for end in words_from(ends, blobs):
        yield int.from_bytes(data[begin:end], "little")
        begin = end


def texts_json(texts: Sequence[str], blobs: Blobs) -> list[int]:
    """Texts as JSON values: the quotes in them would make JSON strings slow to read."""
    return [words_json(map(len, texts), blobs), kept(blobs, "".join(texts).encode())]


def texts_from(value: list[int], blobs: Blobs) -> Iterator[str]:
    """The texts that `texts_json` wrote."""
    lengths, data = (blobs[at] for at in value)
    text, at = str(data, "utf-8"), 0
    for length in _words(lengths):
        yield text[at : at + length]
        at += length


def file_json(file: FileOfPolicies, blobs: Blobs) -> list[Any]:
    """A file with a part for each policy, as JSON values."""
    parts = (kept(blobs, bytes(part)) for part in (file.head, file.items.data, file.tail))
    return [file.items.separator, words_json(file.items.ends, blobs), *parts]


def file_from(value: list[Any], blobs: Blobs) -> FileOfPolicies:
    """The file that `file_json` wrote."""
    separator, ends, *places = value
    head, data, tail = (blobs[at] for at in places)
    return FileOfPolicies(head, Stretches(words_from(ends, blobs), data, separator), tail)


def documents_json(documents: Sequence[KnownDocument], blobs: Blobs) -> list[int]:
    """The documents of a file as JSON values."""
    digests = b"".join(digest for digest, _, _ in documents)
    lines = words_json((line for _, line, _ in documents), blobs)
    return [kept(blobs, digests), lines, words_json((own + 1 for *_, own in documents), blobs)]


def documents_from(value: list[int], blobs: Blobs) -> list[KnownDocument]:
    """The documents that `documents_json` wrote."""
    digests = bytes(blobs[value[0]])
    lines, owners = (words_from(at, blobs) for at in value[1:])
    return [
        (digests[at : at + DIGEST_BYTES], line, owner - 1)
        for at, line, owner in zip(count(0, DIGEST_BYTES), lines, owners, strict=False)
    ]


def frames_json(frames: Frames, blobs: Blobs) -> dict[str, Any]:
    """The frames as JSON values."""
    return {
        "nodes": words_json(chain.from_iterable(frames.nodes), blobs),
        "distinguished": sorted(frames.distinguished),
        "directions": {d.value: _frame(frame, blobs) for d, frame in frames.directions.items()},
    }


def frames_from(value: dict[str, Any], blobs: Blobs) -> Frames:
    """The frames that `frames_json` wrote, without the choices that led to them."""
    words = words_from(value["nodes"], blobs)
    nodes = tuple(zip(*[iter(words)] * NODE_WORDS, strict=True))
    directions = {d: _frame_from(d, value["directions"][d.value], blobs) for d in Direction}
    return Frames(directions, nodes, frozenset(map(Kind, value["distinguished"])))


def _frame(frame: Frame, blobs: Blobs) -> list[Any]:
    v = frame.view
    return [
        [v.is_used, *(f"{m:x}" for m in (v.subject_bits, v.peer_bits, v.blocks, v.ports))],
        [frame.rows.used, frame.rows.capacity, frame.columns.used, frame.columns.capacity],
        words_json(frame.row_ids, blobs),
        words_json(frame.column_ids, blobs),
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
        tuple(words_from(row_ids, blobs)),
        tuple(words_from(column_ids, blobs)),
        {plan.family: plan for plan in plans},
    )


def _address(plan: AddressPlan, blobs: Blobs) -> list[Any]:
    firsts = numbers_json((first for first, _ in plan.runs), blobs)
    runs = firsts, words_json((column for _, column in plan.runs), blobs)
    return [
        *(plan.family, plan.layout.value, runs, plan.root_bits, plan.root),
        *(words_json(plan.roots, blobs), plan.rounds, plan.entries),
    ]


def _address_from(value: list[Any], blobs: Blobs) -> AddressPlan:
    family, layout, (starts, columns), root_bits, root, roots, rounds, entries = value
    firsts = numbers_from(starts, blobs)
    return AddressPlan(
        family,
        AddressLayout(layout),
        tuple(zip(firsts, words_from(columns, blobs), strict=True)),
        root_bits,
        root,
        words_from(roots, blobs),
        tuple(rounds),
        entries,
    )


def seeds_json(seeds: Sequence[Seed], blobs: Blobs) -> list[list[Any]]:
    """Seeds as JSON values."""
    return [
        [s.map_name, s.kind, s.entries, s.fields, kept(blobs, bytes(s.data)), s.key_bytes]
        for s in seeds
    ]


def seeds_from(value: list[list[Any]], blobs: Blobs) -> list[Seed]:
    """The seeds that `seeds_json` wrote."""
    return [
        Seed(name, kind, entries, tuple(fields), bytes(blobs[data]), key_bytes)
        for name, kind, entries, fields, data, key_bytes in value
    ]


def diagrams_json(diagrams: Sequence[Diagram], blobs: Blobs) -> list[int]:
    """Diagrams as JSON values."""
    steps = chain.from_iterable(chain.from_iterable(diagrams))
    return [words_json(map(len, diagrams), blobs), words_json(steps, blobs)]


def diagrams_from(value: list[int], blobs: Blobs) -> Iterator[Diagram]:
    """The diagrams that `diagrams_json` wrote."""
    lengths, steps = (_words(blobs[at]) for at in value)
    pairs = tuple(zip(steps[::2], steps[1::2], strict=True))
    at = 0
    for length in lengths:
        yield pairs[at : at + length]
        at += length


def table_json(table: ViewedTable, blobs: Blobs) -> dict[str, Any]:
    """A table as JSON values; the contents of the rows are one piece."""
    rows = table.rows
    parts = b"".join(p if isinstance(p, bytes) else little_endian(p) for p in _parts(rows))
    return {
        "of_row": words_json(table.of_row, blobs),
        "lengths": words_json((len(row.cells) for row in rows), blobs),
        "cells": words_json(chain.from_iterable(row.cells for row in rows), blobs),
        "counts": words_json(chain.from_iterable(row.counts for row in rows), blobs),
        "widths": kept(
            blobs, bytes(_NARROW if isinstance(p, bytes) else _WIDE for p in _parts(rows))
        ),
        "columns": len(rows[0].parts),
        "parts": kept(blobs, parts),
    }


def table_from(value: dict[str, Any], blobs: Blobs) -> ViewedTable:
    """The table that `table_json` wrote."""
    lengths, cells, counts, of_row = (
        tuple(words_from(value[name], blobs)) for name in ("lengths", "cells", "counts", "of_row")
    )
    columns, whole = value["columns"], blobs[value["parts"]]
    rows: list[ViewedRow] = []
    at = begin = 0
    for length, width in zip(lengths, blobs[value["widths"]], strict=True):
        data = bytes(whole[begin : begin + width * columns])
        parts: Parts = data if width == _NARROW else _words(data)
        end = at + length
        rows.append(ViewedRow(cells[at:end], parts, counts[at:end]))
        at, begin = end, begin + len(data)
    return ViewedTable(tuple(rows), of_row)


def _parts(rows: Iterable[ViewedRow]) -> Iterator[Parts]:
    return (row.parts for row in rows)
