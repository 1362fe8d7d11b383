# SPDX-License-Identifier: Apache-2.0
"""Memory whose contents are not known when a program begins: any bytes, or a named table's contents."""

from collections.abc import Callable

from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.memory import Cells, Memory
from policyc.verifier.bytecode.nodes import Node
from policyc.verifier.bytecode.pointers import Pointer, Value
from policyc.verifier.bytecode.symbolic.offsets import one_of_few, places
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Op, Truth

Read = Callable[[Bits], Bits]
"""The word of 32 bits at an offset in bytes."""

Watch = Callable[[Memory, Bits, int, Value], None]
"""Called for each store with the memory before it, its offset, its size, the stored value."""


class UnknownMemory(Memory):
    """Bytes that may be anything, and the bytes that the program wrote over them.

    Byte n before any write is the term `NAME@n`. Another region may alias the same memory. A store to
    that region is not seen here, so the claims must not depend on what is read here (any byte may be
    read).
    """

    def __init__(
        self, domain: TermDomain, name: str, size: int, watch: Watch | None = None
    ) -> None:
        self.domain, self.name, self.size, self._watch = domain, name, size, watch
        self.written = Cells(domain, 0, size)

    def load(self, offset: Bits, size: int) -> Value:
        """Stored bytes, and for the rest the initial bytes."""
        found: Value | None = None
        for condition, at in places(self.domain, offset):
            value = self._load(at, size)
            if found is None:
                found = value
            elif isinstance(found, Pointer) or isinstance(value, Pointer):
                raise UnmodelledError("one of several pointers is read")
            else:
                found = self.domain.choose(condition, value, found, 8 * size)
        if found is None:
            raise FaultError("there is no offset")
        return found

    def store(self, offset: Bits, size: int, value: Value) -> None:
        """Store over the old content; at one of several places, the other places keep their content."""
        there = places(self.domain, offset)
        for condition, at in there:
            self._check(at, size)
            if self._watch is not None:
                self._watch(self.copy(), at, size, value)
            new = value if len(there) == 1 else self._stored_if(condition, at, size, value)
            self.written.store(at, size, new)

    def _stored_if(self, condition: Truth, at: int, size: int, value: Value) -> Bits:
        old = self._load(at, size)
        if isinstance(old, Pointer) or isinstance(value, Pointer):
            raise UnmodelledError("a pointer is stored at one of several places")
        return self.domain.choose(condition, value, old, 8 * size)

    def _load(self, at: int, size: int) -> Value:
        self._check(at, size)
        found = self.written.cells.get(at)
        if found is not None and found[0] == size:
            return found[1]
        covered = [self._is_written(at + byte) for byte in range(size)]
        if all(covered):
            return self.written.load(at, size)
        parts = [self._byte(at + byte, is_written) for byte, is_written in enumerate(covered)]
        return self.domain.concat([(part, 8) for part in parts])

    def copy(self) -> "UnknownMemory":
        """The same memory in an independent run."""
        other = self.blank()
        other.written = self.written.copy()
        return other

    def blank(self) -> "UnknownMemory":
        """The same memory before any write."""
        return UnknownMemory(self.domain, self.name, self.size, self._watch)

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Rewrite the pointers that were stored here."""
        self.written.rewrite_pointers(change)

    def initial(self, at: int) -> Node:
        """The initial byte."""
        return self.domain.variable(f"{self.name}@{at}", 8)

    def _check(self, at: int, size: int) -> None:
        if at < 0 or at + size > self.size:
            raise FaultError(f"{size} bytes at {at} of {self.name}, which has {self.size}")

    def _is_written(self, at: int) -> bool:
        return any(start <= at < start + size for start, (size, _) in self.written.cells.items())

    def _byte(self, at: int, is_written: bool) -> Bits:
        if not is_written:
            found: Bits = self.initial(at)
            return found
        value = self.written.load(at, 1)
        if isinstance(value, Pointer):
            raise FaultError("a part of a pointer is read")
        return value


class TableMemory(Memory):
    """A value of a map that does not change meanwhile: `read` gives the word at an offset.

    Words of 32 bits at any offset, each independent. Two of them may overlap; that is not modelled, so
    nothing is concluded from it.
    """

    def __init__(self, domain: TermDomain, name: str, size: int, read: Read) -> None:
        self.domain, self.name, self.size, self._read = domain, name, size, read

    def load(self, offset: Bits, size: int) -> Value:
        """One or two words. The kernel's verifier checks that they are within the value."""
        if size not in (4, 8):
            raise UnmodelledError(f"{size} bytes of a value of {self.name} are read")
        first = self._word(offset, 0)
        if size == 4:
            return first
        return self.domain.concat([(first, 32), (self._word(offset, 4), 32)])

    def store(self, offset: Bits, size: int, value: Value) -> None:
        """An error: no program of ours stores into a table."""
        raise UnmodelledError(f"a value of {self.name} is changed")

    def copy(self) -> "TableMemory":
        """The memory itself, because it never changes."""
        return self

    def rewrite_pointers(self, change: Callable[[Pointer], Value]) -> None:
        """Nothing to do: it holds no pointers."""

    def _word(self, offset: Bits, more: int) -> Bits:
        if not isinstance(offset, int):
            low = self.domain.truncate(offset, 32, 64)
            return self._chosen(self.domain.binary(Op.ADD, low, more, 32))
        if offset + more + 4 > self.size:
            raise FaultError(f"byte {offset + more} of {self.name}, which has {self.size}")
        return self._read(offset + more)

    def _chosen(self, offset: Bits) -> Bits:
        """The word at one of a few known offsets if the offset is that, else at the offset itself."""
        few = one_of_few(self.domain, offset)
        if not few:
            return self._read(offset)
        (_, at), *rest = few
        found = self._word(at, 0)
        for condition, at in rest:
            found = self.domain.choose(condition, self._word(at, 0), found, 32)
        return found
