# SPDX-License-Identifier: Apache-2.0
"""What all classes of this package share: a pinned map, and an array with a single entry.

with FailsafePorts(pins) as ports:
    ports.put(ports.key_of(...), PRESENT)
"""

import os
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from types import TracebackType
from typing import ClassVar, Self

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.layout import StructLayout
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.undo import Undo

PRESENT = (1).to_bytes(4, sys.byteorder)
"""The value of an entry that means something by its key alone."""


class MissingMapError(HostError):
    """The map is not pinned: another release made the hooks, or a command died or runs meanwhile."""


class PinnedMap:
    """A shared map, open while the block lasts. Numbers in keys and values are in host order."""

    NAME: ClassVar[str]
    """The name in the datapath, and of the pin."""

    def __init__(self, pins: Pins) -> None:
        """Raises `MissingMapError` if no such map is pinned."""
        self.pins = pins
        try:
            self.fd = bpf_syscall.obj_get(pins.map(self.NAME)).number
        except FileNotFoundError as error:
            raise MissingMapError(
                f"the bundle's hooks have no map `{self.NAME}`", "compile the bundle again"
            ) from error

    @classmethod
    def is_there(cls, pins: Pins) -> bool:
        """Whether the map is pinned."""
        return pins.map(cls.NAME).exists()

    def close(self) -> None:
        """Release the map."""
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @cached_property
    def info(self) -> bpf_syscall.MapInfo:
        """The kernel's information."""
        return bpf_syscall.map_info(self.fd)

    @property
    def max_entries(self) -> int:
        """How many entries it has room for."""
        return self.info.max_entries

    @cached_property
    def key(self) -> StructLayout:
        """The layout of a key that is a struct."""
        return Btf.of_map(self.fd).type(self.info.key_type)

    @cached_property
    def value(self) -> StructLayout:
        """The layout of a value that is a struct."""
        return Btf.of_map(self.fd).type(self.info.value_type)

    def number_key(self, number: int) -> bytes:
        """A key that is a number: an array's index, a device."""
        return number.to_bytes(self.info.key_size, sys.byteorder)

    def get(self, key: bytes) -> bytes | None:
        """The value; None if there is none."""
        return bpf_syscall.map_lookup(self.fd, key, self.info.value_size)

    def put(self, key: bytes, value: bytes) -> None:
        """Add or replace an entry."""
        bpf_syscall.map_update(self.fd, key, value)

    def put_all(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add or replace entries, in one call per portion."""
        bpf_syscall.map_update_batch(self.fd, b"".join(keys), b"".join(values), len(keys))

    def delete(self, key: bytes) -> None:
        """Remove an entry, if there is one."""
        bpf_syscall.map_delete(self.fd, key)

    def all_keys(self) -> list[bytes]:
        """All keys."""
        return list(bpf_syscall.map_keys(self.fd, self.info.key_size))

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries; those that are removed meanwhile are left out."""
        for key in self.all_keys():
            value = self.get(key)
            if value is not None:
                yield key, value

    def replace(self, key: bytes, value: bytes, undo: Undo) -> None:
        """`put`, and to undo it, what was there before."""
        before = self.get(key)
        if before != value:
            undo.by(self.restore, self.pins, key, before)
            self.put(key, value)

    @classmethod
    def restore(cls, pins: Pins, key: bytes, before: bytes | None) -> None:
        """Open the map, and put back an entry, or remove it if there was none."""
        with cls(pins) as opened:
            if before is None:
                opened.delete(key)
            else:
                opened.put(key, before)


class SingleEntry(PinnedMap):
    """An array with one entry: settings of the node."""

    @property
    def entry(self) -> bytes:
        """The value."""
        return self.get(bytes(4)) or bytes(self.info.value_size)

    def set(self, value: bytes, undo: Undo | None = None) -> None:
        """Replace the value; `undo` puts it back."""
        if undo is None:
            self.put(bytes(4), value)
        else:
            self.replace(bytes(4), value, undo)
