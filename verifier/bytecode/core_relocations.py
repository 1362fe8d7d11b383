# SPDX-License-Identifier: Apache-2.0
"""CO-RE relocations of .BTF.ext: values that the loader takes from the running kernel's own types.

The values depend on a kernel; `Layouts` supplies them. The encoding is that of libbpf's relo_core.h and
the kernel's `struct bpf_core_relo`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from policyc.verifier.bytecode.btf import Btf
from policyc.verifier.bytecode.errors import ObjectError, UnmodelledError
from policyc.verifier.bytecode.fields import numbers, part, text

_MAGIC = 0xEB9F
_RECORD = 16


class CoreKind(IntEnum):
    """enum bpf_core_relo_kind: the property of a field, a type or an enumerator that is relocated."""

    FIELD_BYTE_OFFSET = 0
    FIELD_BYTE_SIZE = 1
    FIELD_EXISTS = 2
    FIELD_SIGNED = 3
    FIELD_LSHIFT_U64 = 4
    FIELD_RSHIFT_U64 = 5
    TYPE_ID_LOCAL = 6
    TYPE_ID_TARGET = 7
    TYPE_EXISTS = 8
    TYPE_SIZE = 9
    ENUMVAL_EXISTS = 10
    ENUMVAL_VALUE = 11
    TYPE_MATCHES = 12


@dataclass(frozen=True, slots=True)
class CoreRelocation:
    """A relocation about `type` (its name in the object, as `sk_buff___pc`) and `access` such as `0:2`.

    `type_id` is the object's own id; `access` counts its members.
    """

    type: str
    type_id: int
    access: str
    kind: CoreKind


class Layouts(Protocol):
    """A kernel's answers."""

    def answer(self, relocation: CoreRelocation) -> int | None:
        """The value to insert; None if that kernel has no such field: the instruction may not run."""


class NoLayouts:
    """No kernel: a program with CO-RE relocations is not supported."""

    def answer(self, relocation: CoreRelocation) -> int | None:
        """UnmodelledError, always."""
        raise UnmodelledError(f"{relocation} depends on a kernel's types")


def read_core_relocations(data: bytes, btf: Btf) -> Mapping[str, Mapping[int, CoreRelocation]]:
    """The relocations of a .BTF.ext section: by section, by the offset of the instruction."""
    magic, version, _flags, header = numbers(data, "HBBI", 0, "the BTF.ext header")
    if magic != _MAGIC or version != 1:
        raise ObjectError("this is no BTF.ext of version 1, little-endian")
    if header < 32:  # written before CO-RE existed
        return {}
    at, size = numbers(data, "II", 24, "the BTF.ext header")
    found: dict[str, dict[int, CoreRelocation]] = {}
    for section, offset, relocation in _records(part(data, header + at, size, "CO-RE"), btf):
        of_section = found.setdefault(section, {})
        if offset in of_section:
            raise ObjectError(f"{section}: two CO-RE relocations at {offset}")
        of_section[offset] = relocation
    return found


def _records(data: bytes, btf: Btf) -> Iterator[tuple[str, int, CoreRelocation]]:
    if not data:
        return
    (record,) = numbers(data, "I", 0, "CO-RE")
    if record != _RECORD:
        raise ObjectError(f"CO-RE relocations of {record} bytes")
    at = 4
    while at < len(data):
        name, count = numbers(data, "II", at, "CO-RE")
        section = text(btf.strings, name, "a section of CO-RE")
        records = part(data, at + 8, _RECORD * count, "CO-RE")
        for i in range(count):
            offset, ident, access, kind = numbers(records, "IIII", _RECORD * i, "CO-RE")
            yield section, offset, _relocation(btf, ident, access, kind)
        at += 8 + _RECORD * count


def _relocation(btf: Btf, ident: int, access: int, kind: int) -> CoreRelocation:
    try:
        known = CoreKind(kind)
    except ValueError as error:
        raise ObjectError(f"a CO-RE relocation of kind {kind}") from error
    path = text(btf.strings, access, "a CO-RE access")
    return CoreRelocation(btf.type(btf.plain(ident)).name, ident, path, known)
