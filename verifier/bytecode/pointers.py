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
    """A piece of memory that no other one overlaps; the subclasses say whose. Equal: the same piece."""


@dataclass(frozen=True, slots=True)
class StackFrame(Region):
    """The stack of the function that is `depth` calls deep; r10 points to its offset 0, its end."""

    depth: int


@dataclass(frozen=True, slots=True)
class Context(Region):
    """What the program is about, as `struct __sk_buff`."""


@dataclass(frozen=True, slots=True)
class Packet(Region):
    """The linear data of the packet, until a helper changes it: then there is another generation."""

    generation: int = 0


@dataclass(frozen=True, slots=True)
class MapReference(Region):
    """A map as helpers take it; there is nothing to be read behind it."""

    map: str


@dataclass(frozen=True, slots=True)
class MapValue(Region):
    """A value of a map; `number` tells apart those that a run has met."""

    map: str
    number: int


@dataclass(frozen=True, slots=True)
class RingRecord(Region):
    """A record that was reserved in a ring buffer, until it is submitted or discarded."""

    map: str
    number: int


@dataclass(frozen=True, slots=True)
class KernelObject(Region):
    """Memory of the kernel that a kfunc has given; an oracle says what is in it."""

    name: str


@dataclass(frozen=True, slots=True)
class Forgotten(Region):
    """Where a pointer leads of which nothing is known, not even that it is one: it is never read."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """`offset` bytes (64 bits, two's complement) behind the start of a region.

    `null`: whether it is 0 instead. While that is not known it must be asked before it is used.
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
