# SPDX-License-Identifier: Apache-2.0
"""The environment of a program for all its runs: maps and helpers that may do anything legal.

A helper gives any result that it can give, and a map has any contents. Events that the caller's claims
are about (calls, stores into maps) are recorded with their guards. An unknown helper is an
UnmodelledError.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from policyc.verifier.bytecode.definitions import MapDefinition, MapKind
from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.helpers import Helper
from policyc.verifier.bytecode.machine import Called, Environment, TailCall
from policyc.verifier.bytecode.memory import Memory
from policyc.verifier.bytecode.nodes import Node
from policyc.verifier.bytecode.pointers import (
    MapReference,
    MapValue,
    Pointer,
    Region,
    RingRecord,
    Value,
)
from policyc.verifier.bytecode.program import Program
from policyc.verifier.bytecode.state import State
from policyc.verifier.bytecode.symbolic.all_runs import Runner
from policyc.verifier.bytecode.symbolic.guards import Guard
from policyc.verifier.bytecode.symbolic.unknown import (
    TableMemory,
    UnknownMemory,
    Watch,
)
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Cmp, Truth

_ARRAYS = (MapKind.ARRAY, MapKind.PERCPU_ARRAY)
_HASHES = (MapKind.HASH, MapKind.LRU_HASH, MapKind.LPM_TRIE)


@dataclass(frozen=True)
class Deed:
    """A side effect of a program at a place, under a guard: a call on a map, or a store into a value.

    `what` is lookup, update, delete, store or submit. `key` and `value` are the helper's arguments.
    `region` is the value that was found or stored into, at `offset`, and `before` is its old content; or
    it is the submitted record with its content at that time.
    """

    what: str
    map: str
    guard: Guard
    at: tuple[str, int]
    region: Region | None = None
    key: Bits = 0
    value: Value = 0
    offset: Bits = 0
    size: int = 0
    before: Memory | None = None


@dataclass(frozen=True)
class TableRead:
    """A table lookup: its guard, its key and offset, and the term for the word found there.

    The offset None tests presence: then the term is a truth, that the entry is absent.
    """

    map: str
    guard: Guard
    key: Bits
    offset: Bits | None
    found: Node


@dataclass
class Surroundings(Environment):
    """The environment of all runs of a program.

    `tables` are the maps that do not change meanwhile. `own` are maps with one value that each run has
    for itself (scratch memory). All other maps may have any contents at each lookup.
    """

    program: Program
    domain: TermDomain
    tables: Set[str] = frozenset()
    own: Set[str] = frozenset()
    deeds: list[Deed] = field(default_factory=list)
    reads: list[TableRead] = field(default_factory=list)
    runner: Runner | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def call(self, state: State, helper: int) -> Called | TailCall:
        """Apply a helper to any state in which it may be called."""
        match helper:
            case Helper.MAP_LOOKUP_ELEM:
                return self._lookup(state)
            case Helper.MAP_UPDATE_ELEM:
                return self._update(state)
            case Helper.MAP_DELETE_ELEM:
                return self._delete(state)
            case Helper.KTIME_GET_NS:
                return Called(self.fresh("time", 64))
            case Helper.GET_PRANDOM_U32:
                return Called(self.domain.zero_extend(self.fresh("random", 32), 32, 64))
            case Helper.TAIL_CALL:
                return TailCall(self._map(state, register=2).name, state.scalar(3))
            case Helper.RINGBUF_RESERVE:
                return self._reserve(state)
            case Helper.RINGBUF_SUBMIT:
                return self._submit(state)
        raise UnmodelledError(f"the helper {helper} is not known here")

    def kfunc(self, state: State, name: str) -> Called:
        """No kfunc is known."""
        raise UnmodelledError(f"the kernel's function {name} is not known here")

    def map_value(self, state: State, name: str) -> Pointer:
        """No program here has data sections."""
        raise UnmodelledError(f"the data section {name} is not known here")

    def _lookup(self, state: State) -> Called:
        definition = self._map(state)
        key = state.load_bits(state.pointer(2), definition.key_size)
        if definition.name in self.own:
            return Called(self._own(state, definition, key))
        region = MapValue(definition.name, next(self._numbers))
        is_missing = self._is_missing(state, definition, key)
        if is_missing is True:
            return Called(0)
        if definition.name in self.tables:
            state.memory[region] = self._table(definition, key)
        else:
            self.did("lookup", definition.name, region=region, key=key)
            watch = partial(self._stored, region)
            name = f"{definition.name}#{region.number}"
            memory = UnknownMemory(self.domain, name, definition.value_size, watch)
            state.memory[region] = memory
        return Called(Pointer(region, 0, is_missing))

    def _own(self, state: State, definition: MapDefinition, key: Bits) -> Pointer:
        if definition.kind not in _ARRAYS or key != 0 or definition.max_entries != 1:
            raise UnmodelledError(f"{definition.name} is more than one value")
        region = MapValue(definition.name, 0)
        if region not in state.memory:
            memory = UnknownMemory(self.domain, definition.name, definition.value_size)
            state.memory[region] = memory
        return Pointer(region)

    def _is_missing(self, state: State, definition: MapDefinition, key: Bits) -> Truth:
        if definition.kind in _ARRAYS:
            return state.domain.compare(Cmp.ULE, definition.max_entries, key, 32)
        if definition.kind not in _HASHES:
            raise UnmodelledError(f"a look into {definition.name}, of which the kind is not known")
        if definition.name in self.tables:
            return self._read(definition.name, key, None)
        return self.domain.truth(f"{definition.name} has no #{next(self._numbers)}")

    def _table(self, definition: MapDefinition, key: Bits) -> TableMemory:
        if definition.kind not in (MapKind.ARRAY, MapKind.LPM_TRIE):
            raise UnmodelledError(f"{definition.name} is neither an array nor a trie")
        read = partial(self._read, definition.name, key)
        return TableMemory(self.domain, definition.name, definition.value_size, read)

    def _read(self, name: str, key: Bits, offset: Bits | None) -> Node:
        assert self.runner is not None, "a run has a runner"
        title = f"{name} #{next(self._numbers)}"
        found = self.domain.variable(title, 0 if offset is None else 32)
        self.reads.append(TableRead(name, self.runner.guard, key, offset, found))
        return found

    def _update(self, state: State) -> Called:
        definition = self._changed_map(state)
        key = state.load_bits(state.pointer(2), definition.key_size)
        value = state.load(state.pointer(3), definition.value_size)
        self.did("update", definition.name, key=key, value=value, size=definition.value_size)
        return Called(self.fresh("update", 64))

    def _delete(self, state: State) -> Called:
        definition = self._changed_map(state)
        key = state.load_bits(state.pointer(2), definition.key_size)
        self.did("delete", definition.name, key=key)
        return Called(self.fresh("delete", 64))

    def _reserve(self, state: State) -> Called:
        """A record of known size with any bytes; there may be no room."""
        definition = self._map(state)
        size, flags = state.scalar(2), state.scalar(3)
        if definition.kind is not MapKind.RINGBUF or not isinstance(size, int) or flags != 0:
            raise UnmodelledError(f"a record of {definition.name}, of which not enough is known")
        region = RingRecord(definition.name, next(self._numbers))
        name = f"{definition.name}#{region.number}"
        state.memory[region] = UnknownMemory(self.domain, name, size)
        return Called(Pointer(region, 0, self.domain.truth(f"{name} has no room")))

    def _submit(self, state: State) -> Called:
        """Submit the record to the reader, with its current content."""
        record = state.pointer(1)
        if not isinstance(record.region, RingRecord) or record.offset != 0 or state.scalar(2) != 0:
            raise FaultError("r1 is no record, or flags are given")
        self.did("submit", record.region.map, region=record.region, before=state.of(record.region))
        del state.memory[record.region]
        return Called(None)

    def _map(self, state: State, register: int = 1) -> MapDefinition:
        region = state.pointer(register).region
        if not isinstance(region, MapReference):
            raise FaultError(f"r{register} is no map")
        return self.program.maps[region.map]

    def _changed_map(self, state: State) -> MapDefinition:
        """The map of a helper that writes. UnmodelledError for a map whose changes would be missed."""
        definition = self._map(state)
        if definition.name in self.tables or definition.name in self.own:
            raise UnmodelledError(f"{definition.name} is changed by a helper")
        return definition

    def stored_into(self, name: str) -> Watch:
        """Set the callback that records stores into memory outside maps, under a name."""

        def watch(before: Memory, offset: Bits, size: int, value: Value) -> None:
            self.did("store", name, value=value, offset=offset, size=size, before=before)

        return watch

    def _stored(
        self, region: MapValue, before: Memory, offset: Bits, size: int, value: Value
    ) -> None:
        more = {"value": value, "offset": offset, "size": size, "before": before}
        self.did("store", region.map, region=region, **more)

    def did(self, what: str, name: str, **more: Any) -> None:
        """Record what is done on a map at the current step."""
        runner = self.runner
        assert runner is not None, "a run has a runner"
        self.deeds.append(Deed(what, name, runner.guard, runner.at, **more))

    def fresh(self, name: str, width: int) -> Bits:
        """A fresh variable with so many bits."""
        return self.domain.variable(f"{name} #{next(self._numbers)}", width)
