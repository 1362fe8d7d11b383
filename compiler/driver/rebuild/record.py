# SPDX-License-Identifier: Apache-2.0
"""The record of a run for the next run: input digests, decisions, and each policy's part of each file.

A record is JSON values and bytes, one entry of the build cache. A run writes it after it proved
everything. Runs of the same release with the same paths and options read it.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from policyc.backends.ebpf_c.frames import Frames
from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.rebuild.documents import KnownDocument
from policyc.compiler.driver.rebuild.partition import partition_from
from policyc.compiler.driver.rebuild.policies import Policies, policies_from
from policyc.compiler.driver.rebuild.shapes import (
    Blobs,
    diagrams_from,
    documents_from,
    file_from,
    frames_from,
    seeds_from,
    table_from,
    texts_from,
)
from policyc.compiler.driver.rebuild.splicing import FileOfPolicies
from policyc.ir.atoms import Atoms
from policyc.ir.decision import Diagram
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Direction
from policyc.ir.viewed import ViewedTable

_SIZE = 8
Default = tuple[Direction, tuple[int, ...]]
"""A default deny: its direction, and the policies that isolate, by their places in the record."""


@dataclass(frozen=True)
class Record:
    """`values` are JSON values (made by `recording.py`); some of them refer to bytes in `blobs`."""

    values: Mapping[str, Any]
    blobs: Blobs = field(repr=False)

    @cached_property
    def policies(self) -> Policies:
        """The policies, in their order."""
        return policies_from(self.values["policies"], self.blobs)

    @cached_property
    def files(self) -> dict[str, FileOfPolicies]:
        """The files with a part for each policy, by name."""
        files = self.values["files"]
        return {name: file_from(value, self.blobs) for name, value in files.items()}

    @cached_property
    def documents(self) -> list[list[KnownDocument] | None]:
        """The documents of each file; None if only a parser could split it."""
        found = self.values["documents"]
        return [None if each is None else documents_from(each, self.blobs) for each in found]

    @cached_property
    def partition(self) -> Atoms:
        """Rows, columns and their signatures."""
        return partition_from(self.values["partition"], self.blobs)

    @cached_property
    def frames(self) -> Frames:
        """The layout without verdicts."""
        return frames_from(self.values["frames"], self.blobs)

    @cached_property
    def diagrams(self) -> tuple[Diagram, ...]:
        """The rule diagrams by cell."""
        return tuple(diagrams_from(self.values["diagrams"], self.blobs))

    @cached_property
    def tables(self) -> dict[Direction, ViewedTable]:
        """The tables of the directions in use."""
        tables = self.values["tables"]
        return {Direction(d): table_from(value, self.blobs) for d, value in tables.items()}

    @cached_property
    def defaults(self) -> tuple[Default, ...]:
        """The default denies, in the order of their ids, which come after those of all rules."""
        return tuple((Direction(d), tuple(policies)) for d, policies in self.values["defaults"])

    @property
    def default_texts(self) -> list[str]:
        """Their entries in rules.json."""
        return list(texts_from(self.values["default_texts"], self.blobs))

    @property
    def address_seeds(self) -> dict[Direction, list[Seed]]:
        """The seeds of the tables of addresses."""
        seeds = self.values["address_seeds"]
        return {Direction(d): seeds_from(value, self.blobs) for d, value in seeds.items()}


def to_bytes(record: Record) -> bytes:
    """The record as one piece."""
    sizes = list(map(len, record.blobs))
    head = json.dumps({**record.values, "sizes": sizes}, separators=(",", ":")).encode()
    return b"".join((len(head).to_bytes(_SIZE, "little"), head, *record.blobs))


def from_bytes(data: bytes) -> Record:
    """The record that `to_bytes` wrote."""
    at = _SIZE + int.from_bytes(data[:_SIZE], "little")
    values = json.loads(data[_SIZE:at])
    whole, blobs = memoryview(data), Blobs()
    for size in values.pop("sizes"):
        blobs.append(whole[at : at + size])
        at += size
    return Record(values, blobs)
