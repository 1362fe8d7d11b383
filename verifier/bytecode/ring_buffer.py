# SPDX-License-Identifier: Apache-2.0
"""A ring buffer without a reader: records are reserved, written, then submitted or discarded.

Room is counted as in the kernel's __bpf_ringbuf_reserve: eight bytes in front of each record, and the
sum rounded up to eight. A discarded record keeps its room.
"""

from policyc.verifier.bytecode.definitions import MapDefinition
from policyc.verifier.bytecode.errors import FaultError
from policyc.verifier.bytecode.memory import Cells, Memory
from policyc.verifier.bytecode.pointers import Pointer, RingRecord, Value
from policyc.verifier.bytecode.state import State

_HEADER = 8
NULL = 0


class RingBuffer:
    """`records` are the submitted records; bytes that were never written cannot be read."""

    def __init__(self, definition: MapDefinition) -> None:
        self.definition = definition
        self.records: list[Memory] = []
        self._used = 0
        self._made = 0

    def reserve(self, state: State, size: int, flags: int) -> Value:
        """A pointer to a record of `size` bytes; NULL if there is no room or flags are given."""
        length = (size + _HEADER + 7) // 8 * 8
        if flags or self._used + length > self.definition.max_entries - 1:
            return NULL
        self._used += length
        self._made += 1
        region = RingRecord(self.definition.name, self._made)
        state.memory[region] = Cells(state.domain, 0, size)
        return Pointer(region)

    def submit(self, state: State, record: Pointer) -> None:
        """Submit the record to the reader."""
        self.records.append(_taken(state, record))


def _taken(state: State, record: Pointer) -> Memory:
    if not isinstance(record.region, RingRecord) or record.offset != 0:
        raise FaultError(f"{record} is no record of a ring buffer")
    memory = state.of(record.region)
    del state.memory[record.region]
    return memory


def discard(state: State, record: Pointer) -> None:
    """Discard the record: the reader does not get it."""
    _taken(state, record)
