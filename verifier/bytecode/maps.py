# SPDX-License-Identifier: Apache-2.0
"""Maps that hold numbers: lookups, updates and deletes as in the kernel's map types.

A value is a region of its own, which the state and the map share. A value that was replaced or deleted
has no memory any more: the kernel may give its memory to another key at once, so no access to it is
modelled.
"""

import struct
from abc import ABC, abstractmethod

from policyc.verifier.bytecode.definitions import BPF_F_RDONLY_PROG, MapDefinition, MapKind
from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.memory import Bytes
from policyc.verifier.bytecode.pointers import MapValue, Pointer, Value
from policyc.verifier.bytecode.state import State

EPERM, ENOENT, E2BIG, EEXIST, EINVAL = 1, 2, 7, 17, 22
ANY, NOEXIST, EXIST = 0, 1, 2
NULL = 0


class Map(ABC):
    """A map on one CPU. Operations give 0 or a negative errno."""

    def __init__(self, definition: MapDefinition) -> None:
        self.definition = definition
        self._made = 0

    def _number(self) -> int:
        self._made += 1
        return self._made

    @abstractmethod
    def lookup(self, state: State, key: bytes) -> Value:
        """A pointer to the value, or NULL."""

    @abstractmethod
    def update(self, state: State, key: bytes, value: bytes, flags: int) -> int:
        """Update an entry, from the program."""

    @abstractmethod
    def delete(self, state: State, key: bytes) -> int:
        """Delete an entry, from the program."""

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Put an entry from user space before a run."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Read an entry from user space."""

    @abstractmethod
    def items(self) -> dict[bytes, bytes]:
        """All entries; of an array the elements that were accessed, as all others are zero."""

    def _check_sizes(self, key: bytes, value: bytes) -> None:
        sizes = self.definition.key_size, self.definition.value_size
        if (len(key), len(value)) != sizes:
            raise UnmodelledError(
                f"{self.definition.name}: {len(key)} and {len(value)} bytes, of {sizes}"
            )


class ArrayMap(Map):
    """BPF_MAP_TYPE_ARRAY, and its per-CPU variant on one CPU; values are made on first access."""

    def __init__(self, definition: MapDefinition) -> None:
        super().__init__(definition)
        self._values: dict[int, Bytes] = {}
        if definition.initial:
            self.put(bytes(4), definition.initial)

    def _at(self, key: bytes) -> int | None:
        (index,) = struct.unpack("<I", key)
        return index if index < self.definition.max_entries else None

    def value(self, index: int) -> Bytes:
        """The memory of an element."""
        found = self._values.get(index)
        if found is None:
            found = self._values[index] = self._memory(bytes(self.definition.value_size))
        return found

    def _memory(self, data: bytes) -> Bytes:
        return Bytes(data, is_read_only=bool(self.definition.flags & BPF_F_RDONLY_PROG))

    def lookup(self, state: State, key: bytes) -> Value:
        """NULL past the end."""
        index = self._at(key)
        if index is None:
            return NULL
        region = MapValue(self.definition.name, index)
        state.memory[region] = self.value(index)
        return Pointer(region)

    def update(self, state: State, key: bytes, value: bytes, flags: int) -> int:
        """Updated in place: pointers to the element see the new value."""
        if flags > EXIST:
            return -EINVAL
        index = self._at(key)
        if index is None:
            return -E2BIG
        if flags == NOEXIST:
            return -EEXIST
        if self.definition.flags & BPF_F_RDONLY_PROG:
            raise FaultError(f"{self.definition.name} can only be read")
        self.value(index).data[:] = value
        return 0

    def delete(self, state: State, key: bytes) -> int:
        """An element of an array cannot be deleted."""
        return -EINVAL

    def put(self, key: bytes, value: bytes) -> None:
        """UnmodelledError past the end."""
        self._check_sizes(key, value)
        index = self._at(key)
        if index is None:
            raise UnmodelledError(f"{self.definition.name} has no element {key.hex()}")
        self._values[index] = self._memory(value)

    def get(self, key: bytes) -> bytes | None:
        """The element, None past the end."""
        index = self._at(key)
        return None if index is None else bytes(self.value(index).data)

    def items(self) -> dict[bytes, bytes]:
        """The elements that were accessed; all others are zero."""
        return {struct.pack("<I", at): bytes(each.data) for at, each in self._values.items()}


class HashMap(Map):
    """BPF_MAP_TYPE_HASH and LRU_HASH. LRU evictions are not modelled, so half of the map must be free.

    Half, because CPUs keep free elements for themselves, and evict before the map is full.
    """

    def __init__(self, definition: MapDefinition) -> None:
        super().__init__(definition)
        self._entries: dict[bytes, tuple[int, Bytes]] = {}

    def lookup(self, state: State, key: bytes) -> Value:
        """NULL if the key is absent."""
        found = self._entries.get(key)
        if found is None:
            return NULL
        region = MapValue(self.definition.name, found[0])
        state.memory[region] = found[1]
        return Pointer(region)

    def update(self, state: State, key: bytes, value: bytes, flags: int) -> int:
        """A new element replaces the old one, which becomes invalid."""
        if flags > EXIST:
            return -EINVAL
        is_there = key in self._entries
        if is_there and flags == NOEXIST:
            return -EEXIST
        if not is_there and flags == EXIST:
            return -ENOENT
        if not is_there and not self._has_room():
            return -E2BIG
        if is_there:
            self._forget(state, key)
        self._entries[key] = self._number(), Bytes(value)
        return 0

    def _has_room(self) -> bool:
        most = self.definition.max_entries
        if self.definition.kind is not MapKind.LRU_HASH:
            return len(self._entries) < most
        if 2 * len(self._entries) >= most:
            raise UnmodelledError(f"{self.definition.name} may have to evict")
        return True

    def _forget(self, state: State, key: bytes) -> None:
        number, _ = self._entries.pop(key)
        state.memory.pop(MapValue(self.definition.name, number), None)

    def delete(self, state: State, key: bytes) -> int:
        """The deleted element's value becomes invalid."""
        if key not in self._entries:
            return -ENOENT
        self._forget(state, key)
        return 0

    def put(self, key: bytes, value: bytes) -> None:
        """Put an entry between runs."""
        self._check_sizes(key, value)
        if key not in self._entries and not self._has_room():
            raise UnmodelledError(f"{self.definition.name} is full")
        self._entries[key] = self._number(), Bytes(value)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        found = self._entries.get(key)
        return None if found is None else bytes(found[1].data)

    def items(self) -> dict[bytes, bytes]:
        """All entries, in insertion order."""
        return {key: bytes(value.data) for key, (_, value) in self._entries.items()}


class TrieMap(Map):
    """BPF_MAP_TYPE_LPM_TRIE, which only user space changes: the longest prefix of a key."""

    def __init__(self, definition: MapDefinition) -> None:
        super().__init__(definition)
        self._entries: dict[tuple[int, int], tuple[int, Bytes]] = {}
        self._bits = 8 * (definition.key_size - 4)

    def _split(self, key: bytes) -> tuple[int, int]:
        return int.from_bytes(key[:4], "little"), int.from_bytes(key[4:], "big")

    def _prefix(self, length: int, address: int) -> tuple[int, int]:
        return length, address >> (self._bits - length)

    def lookup(self, state: State, key: bytes) -> Value:
        """Only prefixes that are no longer than the key's match."""
        length, address = self._split(key)
        if length > self._bits:
            return NULL
        for shorter in range(length, -1, -1):
            found = self._entries.get(self._prefix(shorter, address))
            if found is not None:
                region = MapValue(self.definition.name, found[0])
                state.memory[region] = found[1]
                return Pointer(region)
        return NULL

    def update(self, state: State, key: bytes, value: bytes, flags: int) -> int:
        """Not modelled: no program of ours updates a trie."""
        raise UnmodelledError(f"a program updates the trie {self.definition.name}")

    def delete(self, state: State, key: bytes) -> int:
        """Not modelled: no program of ours deletes from a trie."""
        raise UnmodelledError(f"a program deletes from the trie {self.definition.name}")

    def put(self, key: bytes, value: bytes) -> None:
        """Put a prefix; bits behind it do not matter."""
        self._check_sizes(key, value)
        length, address = self._split(key)
        if length > self._bits:
            raise UnmodelledError(f"{self.definition.name}: a prefix of {length} bits")
        self._entries[self._prefix(length, address)] = self._number(), Bytes(value)

    def get(self, key: bytes) -> bytes | None:
        """The value of a prefix."""
        found = self._entries.get(self._prefix(*self._split(key)))
        return None if found is None else bytes(found[1].data)

    def items(self) -> dict[bytes, bytes]:
        """All entries; bits behind a prefix are zero."""
        return {
            struct.pack("<I", length)
            + (prefix << self._bits - length).to_bytes(self._bits // 8, "big"): bytes(value.data)
            for (length, prefix), (_, value) in self._entries.items()
        }


_MODELS: dict[MapKind, type[ArrayMap | HashMap | TrieMap]] = {
    MapKind.ARRAY: ArrayMap,
    MapKind.PERCPU_ARRAY: ArrayMap,
    MapKind.HASH: HashMap,
    MapKind.LRU_HASH: HashMap,
    MapKind.LPM_TRIE: TrieMap,
}


def has_model(definition: MapDefinition) -> bool:
    """Whether lookups in a map of this kind are modelled."""
    return definition.kind in _MODELS


def empty_map(definition: MapDefinition) -> Map:
    """A new, empty map; UnmodelledError for a kind that is not known."""
    model = _MODELS.get(definition.kind)
    if model is None:
        raise UnmodelledError(f"{definition.name} is a {definition.kind.name}")
    return model(definition)
