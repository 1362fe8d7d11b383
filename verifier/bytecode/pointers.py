# SPDX-License-Identifier: Apache-2.0
"""The contents of a register: a string of 64 bits, or a pointer into a region of memory.

Addresses are never numbers here. A computation that depends on an address as a number is an error, as it
is (mostly) for the kernel's verifier.
"""

from dataclasses import dataclass
from typing import TypeAlias

from policyc.ir.errors import InternalError
from policyc.verifier.bytecode.values import Bits, Truth


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of memory that overlaps no other; the subclasses name its owner. Equal: the same piece."""


@dataclass(frozen=True, slots=True)
class StackFrame(Region):
    """The stack of the function at call depth `depth`; r10 points to its offset 0, its end."""

    depth: int


@dataclass(frozen=True, slots=True)
class Context(Region):
    """The context of the program, such as `struct __sk_buff`."""


@dataclass(frozen=True, slots=True)
class Packet(Region):
    """The linear data of the packet, until a helper changes it: then there is another generation."""

    generation: int = 0


@dataclass(frozen=True, slots=True)
class MapReference(Region):
    """A map as helpers take it; it has no memory that can be read."""

    map: str


@dataclass(frozen=True, slots=True)
class MapValue(Region):
    """A value of a map; `number` distinguishes the values that a run has accessed."""

    map: str
    number: int


@dataclass(frozen=True, slots=True)
class RingRecord(Region):
    """A record that was reserved in a ring buffer, until it is submitted or discarded."""

    map: str
    number: int


@dataclass(frozen=True, slots=True)
class KernelObject(Region):
    """Memory of the kernel that a kfunc returned; an oracle supplies its contents."""

    name: str


@dataclass(frozen=True, slots=True)
class Forgotten(Region):
    """The region of a pointer of which nothing is known: it may not even be a pointer.

    It is never read.
    """


@dataclass(frozen=True, slots=True)
class Pointer:
    """`offset` bytes (64 bits, two's complement) after the start of a region.

    `null`: whether it is 0 instead. While that is not known, the program must test it before use.
    """

    region: Region
    offset: Bits = 0
    null: Truth = False

    def __post_init__(self) -> None:
        """A pointer that is always null is the number 0."""
        if self.null is True:
            raise InternalError("a pointer that is null is the number 0")


CONTEXT = Context()
Value: TypeAlias = Bits | Pointer
