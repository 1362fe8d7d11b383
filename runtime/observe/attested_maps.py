# SPDX-License-Identifier: Apache-2.0
"""A map as a load leaves it, compared entry by entry with the kernel's map.

An array has its seed, then the values that placements wrote, then zeros. A trie has exactly its seed.
Maps that packets write have no such image.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network

from policyc.runtime.bundle.bundle import (
    POLICY_OBJECT,
    WORD,
    Bundle,
    MapSpec,
)
from policyc.runtime.endpoints.placement import MapWrite
from policyc.runtime.kernel import bpf_syscall

ARRAY, TRIE = "array", "lpm"
CLASSES = "pc_class"


@dataclass(frozen=True)
class MapImage:
    """The expected contents of a map: by index (arrays) or by key (tries)."""

    name: str
    kind: str
    entries: int
    values: Mapping[bytes, bytes]

    def differences(self, fd: int, titles: Mapping[int, str]) -> Iterator[str]:
        """The differences of the kernel's map, in words; `titles` name some indices."""
        info = bpf_syscall.map_info(fd)
        if info.max_entries != self.entries:
            yield f"{self.name}: the map has {info.max_entries} entries, expected {self.entries}"
            return
        if self.kind == TRIE:
            yield from self._of_trie(dict(_trie_items(fd, info)))
            return
        size = max((len(value) for value in self.values.values()), default=0)
        if size > info.value_size:
            yield f"{self.name}: values have {info.value_size} bytes, expected {size}"
            return
        zeros = bytes(info.value_size)
        for key, found in _array_items(fd, info):
            wanted = self.values.get(key, b"").ljust(info.value_size, b"\0") or zeros
            if found != wanted:
                index = struct.unpack("=I", key)[0]
                title = f" ({titles[index]})" if index in titles else ""
                yield f"{self.name}[{index}]{title}: found {_words(found)}, expected {_words(wanted)}"

    def _of_trie(self, found: Mapping[bytes, bytes]) -> Iterator[str]:
        for key in sorted(found.keys() | self.values.keys()):
            place = f"{self.name}[{_prefix(key)}]"
            if key not in found:
                yield f"{place}: the entry is missing"
            elif key not in self.values:
                yield f"{place}: {foreign(found[key])}, expected no entry"
            elif found[key] != self.values[key]:
                yield f"{place}: found {_words(found[key])}, expected {_words(self.values[key])}"


def images_of(
    bundle: Bundle, writes: Iterable[MapWrite], classes: Mapping[int, tuple[int, ...]]
) -> Iterator[MapImage]:
    """The images of all maps of the policy program in which verdicts are looked up."""
    written: dict[str, dict[bytes, bytes]] = {}
    for write in writes:  # later writes win, as in the map
        key = struct.pack("=I", write.index)
        value = struct.pack(f"<{len(write.words)}I", *write.words)
        written.setdefault(write.map_name, {})[key] = value
    written[CLASSES] = {
        struct.pack("=I", ident): struct.pack(f"<{len(fields)}I", *fields)
        for ident, fields in classes.items()
    }
    for spec in bundle.maps:
        if spec.object == POLICY_OBJECT and spec.kind in (ARRAY, TRIE):
            values = dict(_seeded(spec, bundle.seed(spec.name))) | written.get(spec.name, {})
            yield MapImage(spec.name, spec.kind, spec.entries, values)


def foreign(value: bytes) -> str:
    """A value that should not be there, in words."""
    return f"found {_words(value)}"


def _seeded(spec: MapSpec, seed: bytes) -> Iterator[tuple[bytes, bytes]]:
    size, key_size = spec.seed_entry_size, spec.key_words * WORD
    for index, at in enumerate(range(0, len(seed), size)):
        entry = seed[at : at + size]
        key = entry[:key_size] if key_size else struct.pack("=I", index)
        yield key, entry[key_size:]


def _array_items(fd: int, info: bpf_syscall.MapInfo) -> Iterator[tuple[bytes, bytes]]:
    size = info.value_size
    for keys, values, count in bpf_syscall.map_items_batch(fd, info):
        for at in range(count):
            yield keys[4 * at : 4 * at + 4], values[size * at : size * (at + 1)]


def _trie_items(fd: int, info: bpf_syscall.MapInfo) -> Iterator[tuple[bytes, bytes]]:
    for key in bpf_syscall.map_keys(fd, info.key_size):
        value = bpf_syscall.map_lookup(fd, key, info.value_size)
        if value is not None:
            yield key, value


def _prefix(key: bytes) -> str:
    (length,) = struct.unpack_from("=I", key)
    return str(ip_network((key[4:], length), strict=False))


def _words(value: bytes) -> str:
    return value.hex(" ", -4)
