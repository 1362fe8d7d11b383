# SPDX-License-Identifier: Apache-2.0
"""The cache of connections that begin: sets of eight ways in an array (runtime/datapath/ct_new.h).

The loader gives its hash secret numbers, so that nobody can choose addresses and ports that all lead
to one set. They stay as they are for as long as the maps do, or what is there would be found no more.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime.errors import HostError

WAYS = 8
HEAD = 64
"""Bytes of a set before its keys: a word of tags for each way, and one that says when it was used."""
ENTRY = 64
"""Of struct pc_ct. Entries are behind the keys."""
SEEDS = 11
"""Numbers of 64 bits: one that is added, and one for each word of an IPv6 key."""
_THERE = 0x80000000
_WORDS = struct.Struct(f"={WAYS}I")
_PORTION = 256


def set_seed(pin: Path) -> None:
    """Write numbers that nobody knows, where there are none yet. Without them no entry is put."""
    if not pin.exists():
        raise HostError(f"the bundle's hooks have no map `{pin.name}`", "compile the bundle again")
    with bpf_syscall.obj_get(pin) as fd:
        size = 8 * SEEDS
        if not any(bpf_syscall.map_lookup(fd, bytes(4), size) or b""):
            base = os.urandom(7) + b"\x01"  # never 0, which says that there are none
            bpf_syscall.map_update(fd, bytes(4), base + os.urandom(size - 8))


def n_entries(info: bpf_syscall.MapInfo) -> int:
    """For how many connections there is room."""
    return info.max_entries * WAYS


def n_used(fd: int, info: bpf_syscall.MapInfo) -> int:
    """How many are there, such as are over among them."""
    return sum(1 for _ in places(fd, info))


def places(fd: int, info: bpf_syscall.MapInfo) -> Iterator[tuple[int, int, bytes]]:
    """Of each entry its set, its way, and the set as it is."""
    for keys, values, count in bpf_syscall.map_items_batch(fd, info, _PORTION):
        for at in range(count):
            whole = values[at * info.value_size : (at + 1) * info.value_size]
            for way, word in enumerate(_WORDS.unpack_from(whole)):
                if word & _THERE:
                    yield struct.unpack_from("=I", keys, 4 * at)[0], way, whole
