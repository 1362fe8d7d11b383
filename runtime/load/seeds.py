# SPDX-License-Identifier: Apache-2.0
"""Fills the maps of a new generation: the seeds, and what the placements add. Nothing reads them yet."""

import array
import struct
from collections.abc import Iterable, Mapping

from policyc.runtime.bundle.bundle import (
    POLICY_OBJECT,
    WORD,
    Bundle,
    MapSpec,
)
from policyc.runtime.endpoints.placement import MapWrite
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall

_PORTION = 65536


def write_seeds(bundle: Bundle, maps: Mapping[str, int]) -> None:
    """Write every seed of the policy object, checking that object and manifest agree."""
    for spec in bundle.maps:
        if spec.object != POLICY_OBJECT:
            continue
        if spec.name not in maps:
            raise InputError(f"{bundle.path}: {POLICY_OBJECT} has no map `{spec.name}`")
        _check(bundle, spec, bpf_syscall.map_info(maps[spec.name]))
        if spec.seed:
            _write_seed(spec, bundle.seed(spec.name), maps[spec.name])


def write_words(writes: Iterable[MapWrite], maps: Mapping[str, int]) -> None:
    """Set single values of arrays."""
    for write in writes:
        if write.map_name not in maps:
            raise InputError(f"the policy program has no map `{write.map_name}` to place into")
        bpf_syscall.map_update(
            maps[write.map_name],
            struct.pack("=I", write.index),
            struct.pack(f"<{len(write.words)}I", *write.words),
        )


def _check(bundle: Bundle, spec: MapSpec, info: bpf_syscall.MapInfo) -> None:
    words_fit = not spec.seed or spec.value_words * WORD == info.value_size
    if info.max_entries != spec.entries or not words_fit:
        raise InputError(
            f"{bundle.path}: the map {spec.name} has {info.max_entries} entries of "
            f"{info.value_size} bytes, its manifest says {spec.entries} of {spec.value_words} words",
            "the bundle mixes files of two compilations",
        )


def _write_seed(spec: MapSpec, seed: bytes, fd: int) -> None:
    size = spec.seed_entry_size
    key_size = spec.key_words * WORD
    for first in range(0, len(seed) // size, _PORTION):
        part = seed[first * size : (first + _PORTION) * size]
        count = len(part) // size
        if key_size:
            entries = [part[at : at + size] for at in range(0, len(part), size)]
            keys = b"".join(entry[:key_size] for entry in entries)
            values = b"".join(entry[key_size:] for entry in entries)
        else:
            keys = array.array("I", range(first, first + count)).tobytes()
            values = part
        bpf_syscall.map_update_batch(fd, keys, values, count)
