# SPDX-License-Identifier: Apache-2.0
"""The content of a map of any kind, and its reset to the content of a new map.

A new map has no elements, or all of them zero. `content` does not show the order in which a hash
table returns its elements, or which element of an LRU is the oldest.
"""

import mmap
import struct
from collections.abc import Iterator

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.bpf_syscall import MapInfo
from policyc.runtime.kernel.per_cpu import possible_cpus

HASH, ARRAY, PROG_ARRAY, PERCPU_ARRAY, LRU_HASH, LPM_TRIE = 1, 2, 3, 6, 9, 11
"""enum bpf_map_type; a ring, for one, cannot be made new again."""
KEYED = (HASH, LRU_HASH, LPM_TRIE, PROG_ARRAY)
RDONLY_PROG, MMAPABLE = 1 << 7, 1 << 10
AT_ONCE = 4096  # elements of an array in one call

Content = dict[bytes, bytes]
"""Elements by key; of arrays those that are not zero."""


def content(fd: int) -> Content:
    """Every element that a new map would not have."""
    info = _known(fd)
    return dict(_keyed(fd, info) if info.kind in KEYED else _array(fd, info))


def wipe(fd: int) -> None:
    """Reset the map to the content of a new one."""
    info = _known(fd)
    if info.kind in KEYED:
        for key in list(bpf_syscall.map_keys(fd, info.key_size)):
            bpf_syscall.map_delete(fd, key)
    elif info.flags & MMAPABLE:
        with mmap.mmap(fd, _mapped_size(info)) as mapped:
            mapped[:] = bytes(len(mapped))
    elif not info.flags & RDONLY_PROG:  # else it is a read-only constant
        for key in content(fd):
            bpf_syscall.map_update(fd, key, bytes(_value_size(info)))


def is_zero(data: bytes) -> bool:
    """Whether all bytes are zero: a hundred times faster than `any` over megabytes."""
    return data == bytes(len(data))


def _known(fd: int) -> MapInfo:
    info = bpf_syscall.map_info(fd)
    if info.kind not in (*KEYED, ARRAY, PERCPU_ARRAY):
        raise ValueError(f"{info.name}: nobody here knows what a map of kind {info.kind} holds")
    return info


def _keyed(fd: int, info: MapInfo) -> Iterator[tuple[bytes, bytes]]:
    for key in list(bpf_syscall.map_keys(fd, info.key_size)):
        value = bpf_syscall.map_lookup(fd, key, info.value_size)
        if value is not None:
            yield key, value


def _array(fd: int, info: MapInfo) -> Iterator[tuple[bytes, bytes]]:
    """What is not zero; of a value for each CPU, all of them one after the other."""
    size = _value_size(info)
    if info.kind == PERCPU_ARRAY or info.max_entries == 1:
        every = (struct.pack("=I", index) for index in range(info.max_entries))
        portions = ((key, bpf_syscall.map_lookup(fd, key, size) or b"", 1) for key in every)
    else:
        portions = bpf_syscall.map_items_batch(fd, info, min(info.max_entries, AT_ONCE))
    for keys, values, count in portions:
        if is_zero(values):
            continue
        for at in range(count):
            value = values[at * size : at * size + size]
            if not is_zero(value):
                yield keys[at * 4 : at * 4 + 4], value


def _value_size(info: MapInfo) -> int:
    if info.kind != PERCPU_ARRAY:
        return info.value_size
    return (info.value_size + 7) // 8 * 8 * possible_cpus()


def _mapped_size(info: MapInfo) -> int:
    size = (info.value_size + 7) // 8 * 8 * info.max_entries
    return (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
