# SPDX-License-Identifier: Apache-2.0
"""The tables of connections as dictionaries, hash maps and the caches of new ones alike."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime import bpf_syscall, connection_cache
from policyc.runtime.connection_cache import ENTRY, HEAD, WAYS

TABLES = {4: ("pc_ct4", "pc_ct4_new"), 6: ("pc_ct6", "pc_ct6_new")}
KEY6 = 40
ENTRIES_AT = HEAD + WAYS * KEY6
SET = ENTRIES_AT + WAYS * ENTRY
TAGS_AT, USED_AT = 0, 4 * WAYS


@dataclass(frozen=True)
class Place:
    """Of an entry in a cache."""

    at: int  # of its set
    way: int


def is_cache(name: str) -> bool:
    return name.endswith("_new")


def entries(pin: Path) -> dict[bytes, bytes]:
    """Key, as hash maps of the family have it -> struct pc_ct."""
    with bpf_syscall.obj_get(pin) as fd:
        info = bpf_syscall.map_info(fd)
        if not is_cache(pin.name):
            keys = list(bpf_syscall.map_keys(fd, info.key_size))
            found = ((key, bpf_syscall.map_lookup(fd, key, info.value_size)) for key in keys)
            return {key: value for key, value in found if value is not None}
        return {
            _key(pin.name, whole, way): _entry(whole, way)
            for _, way, whole in connection_cache.places(fd, info)
        }


def places(pin: Path) -> dict[bytes, list[Place]]:
    """Where a cache has an entry, or more, of each key."""
    found: dict[bytes, list[Place]] = {}
    with bpf_syscall.obj_get(pin) as fd:
        for at, way, whole in connection_cache.places(fd, bpf_syscall.map_info(fd)):
            found.setdefault(_key(pin.name, whole, way), []).append(Place(at, way))
    return found


def change(pin: Path, changed: Mapping[bytes, bytes]) -> None:
    """Give entries that are there other contents; no packets are under way."""
    if not is_cache(pin.name):
        with bpf_syscall.obj_get(pin) as fd:
            for key, value in changed.items():
                bpf_syscall.map_update(fd, key, value)
        return
    for key, there in places(pin).items():
        for place in there if key in changed else ():
            patch_set(pin, place.at, ENTRIES_AT + place.way * ENTRY, changed[key])


def read_set(pin: Path, at: int) -> bytes:
    with bpf_syscall.obj_get(pin) as fd:
        found = bpf_syscall.map_lookup(fd, struct.pack("=I", at), SET)
    assert found is not None
    return found


def patch_set(pin: Path, at: int, offset: int, value: bytes) -> None:
    """Write into a set of a cache."""
    whole = read_set(pin, at)
    with bpf_syscall.obj_get(pin) as fd:
        new = whole[:offset] + value + whole[offset + len(value) :]
        bpf_syscall.map_update(fd, struct.pack("=I", at), new)


def _entry(whole: bytes, way: int) -> bytes:
    return whole[ENTRIES_AT + way * ENTRY : ENTRIES_AT + (way + 1) * ENTRY]


def _key(name: str, whole: bytes, way: int) -> bytes:
    key = whole[HEAD + way * KEY6 : HEAD + (way + 1) * KEY6]
    return key[:4] + key[16:20] + key[32:] if name.startswith("pc_ct4") else key
