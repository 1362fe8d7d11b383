# SPDX-License-Identifier: Apache-2.0
"""Merging of two states at one place: each difference becomes a choice by the condition between them.

States with pointers to different memories in the same register stay separate. If one state has a pointer
and the other a number, or a value left from such a merge, the result is unusable: any use of it is an
error. Stack bytes that one path did not write may hold anything on that path.
"""

from collections.abc import Iterable, Set

from policyc.verifier.bytecode.errors import FaultError
from policyc.verifier.bytecode.memory import POINTER_SIZE, Cells, Memory
from policyc.verifier.bytecode.pointers import Forgotten, Pointer, Region, Value
from policyc.verifier.bytecode.state import Caller, State
from policyc.verifier.bytecode.symbolic.unknown import TableMemory, UnknownMemory
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Truth, mask

WIDTH = 64


FORGOTTEN = Pointer(Forgotten())


def merged(domain: TermDomain, condition: Truth, one: State, other: State) -> State | None:
    """The state that is `one` where the condition holds, else `other`; None: they stay separate.

    It takes over their memories: neither may be used afterwards, unless they stay separate.
    """
    merge = _Merge(domain, condition)
    registers = merge.registers(one.registers, other.registers)
    callers = merge.callers(one.callers, other.callers)
    if registers is None or callers is None:
        return None
    memory: dict[Region, Memory] = {**one.memory, **other.memory}  # a region that one has, too
    for region in one.memory.keys() & other.memory.keys():
        both = merge.memory(one.memory[region], other.memory[region])
        if both is None:
            return None
        memory[region] = both
    return State(one.domain, one.function, one.at, registers, callers, memory)


def forget_pointers(stack: Cells, live: Set[int]) -> None:
    """Forget the pointers on a stack that no instruction reads any more."""
    for at, (_, value) in list(stack.cells.items()):
        if isinstance(value, Pointer) and at not in live and value is not FORGOTTEN:
            stack.store(at & mask(WIDTH), POINTER_SIZE, FORGOTTEN)


class _Merge:
    def __init__(self, domain: TermDomain, condition: Truth) -> None:
        self.domain, self.condition = domain, condition

    def registers(
        self, one: Iterable[Value | None], other: Iterable[Value | None]
    ) -> list[Value | None] | None:
        found: list[Value | None] = []
        for mine, theirs in zip(one, other, strict=True):
            if mine is None or theirs is None:
                found.append(None)  # it was not written on one of the paths
                continue
            value = self.value(mine, theirs, WIDTH)
            if value is None:
                return None
            found.append(value)
        return found

    def callers(
        self, one: tuple[Caller, ...], other: tuple[Caller, ...]
    ) -> tuple[Caller, ...] | None:
        found: list[Caller] = []
        for mine, theirs in zip(one, other, strict=True):
            saved = self.registers(mine.saved, theirs.saved)
            if saved is None or (mine.function, mine.following) != (
                theirs.function,
                theirs.following,
            ):
                return None
            found.append(Caller(mine.function, mine.following, tuple(saved)))
        return tuple(found)

    def value(self, one: Value, other: Value, width: int) -> Value | None:
        """One value for two; None if there is none."""
        if one is other:
            return one
        match one, other:
            case (Pointer(Forgotten()), _) | (_, Pointer(Forgotten())):
                return FORGOTTEN
            case Pointer(region, offset, null), Pointer(there, elsewhere, is_null):
                if region != there:
                    return None
                return Pointer(
                    region, self._bits(offset, elsewhere, WIDTH), self._truth(null, is_null)
                )
            case Pointer(region, offset, null), int(0):
                return Pointer(region, offset, self._truth(null, True))
            case int(0), Pointer(region, offset, null):
                return Pointer(region, offset, self._truth(True, null))
            case (Pointer(), _) | (_, Pointer()):
                return FORGOTTEN
            case _:
                return self._bits(one, other, width)

    def _bits(self, one: Bits, other: Bits, width: int) -> Bits:
        if one is other or (isinstance(one, int) and isinstance(other, int) and one == other):
            return one
        return self.domain.choose(self.condition, one, other, width)

    def _truth(self, one: Truth, other: Truth) -> Truth:
        if one is other:
            return one
        domain, condition = self.domain, self.condition
        return domain.either(domain.both(condition, one), domain.both(domain.no(condition), other))

    def memory(self, one: Memory, other: Memory) -> Memory | None:
        """The same memory after both paths; None for different kinds.

        Most memories are equal: neither path wrote to them since the paths parted.
        """
        match one, other:
            case Cells(), Cells():
                if one.cells == other.cells:
                    return one
                found = Cells(self.domain, one.low, one.high)
                return found if self._store_both((one, one), (other, other), found) else None
            case UnknownMemory(), UnknownMemory():
                if one.written.cells == other.written.cells:
                    return one
                both = one.blank()
                mine, theirs = (one, one.written), (other, other.written)
                return both if self._store_both(mine, theirs, both.written) else None
            case TableMemory(), TableMemory():
                return one
        return None

    def _store_both(
        self, one: tuple[Memory, Cells], other: tuple[Memory, Cells], into: Cells
    ) -> bool:
        """Store what both have, each as read and as written; False if they stay separate."""
        (mine, my_cells), (theirs, their_cells) = one, other
        for at, size in _pieces(my_cells, their_cells):
            held, also = my_cells.cells.get(at), their_cells.cells.get(at)
            value: Value | None
            if held and also and held[1] is also[1] and held[0] == also[0] == size:
                value = held[1]
            else:
                value = self._both(_there(mine, at, size), _there(theirs, at, size), at, size)
            if value is None:
                return False
            if not isinstance(value, Pointer) or (size == POINTER_SIZE and not at % POINTER_SIZE):
                into.store(at & mask(WIDTH), size, value)
        return True

    def _both(self, mine: Value | None, theirs: Value | None, at: int, size: int) -> Value | None:
        """As `value`, where None is an unwritten byte, or a part of a pointer: any bytes."""
        if mine is None or theirs is None:
            known = theirs if mine is None else mine
            if known is None or isinstance(known, Pointer):
                return FORGOTTEN
            any_bytes = self.domain.fresh(f"stack@{at}", 8 * size)
            mine, theirs = (any_bytes if each is None else each for each in (mine, theirs))
        return self.value(mine, theirs, 8 * size)


def _pieces(one: Cells, other: Cells) -> list[tuple[int, int]]:
    """(offset, size) of what either wrote: whole if both have it whole, or one alone has it."""
    mine = {at: size for at, (size, _) in one.cells.items()}
    theirs = {at: size for at, (size, _) in other.cells.items()}
    found = dict(mine.items() & theirs.items())
    for here, there in ((mine, theirs), (theirs, mine)):
        apart = [(at, size) for at, size in here.items() if at not in found]
        taken = (
            {at + byte for at, size in there.items() for byte in range(size)} if apart else set()
        )
        for at, size in apart:
            if any(at + byte in taken for byte in range(size)):
                found.update(dict.fromkeys(range(at, at + size), 1))
            else:
                found[at] = size
    return sorted(found.items())


def _there(memory: Memory, at: int, size: int) -> Value | None:
    """The content on one path; None if it cannot be read."""
    try:
        return memory.load(at & mask(WIDTH), size)
    except FaultError:
        return None
