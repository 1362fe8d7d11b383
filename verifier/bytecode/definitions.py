# SPDX-License-Identifier: Apache-2.0
"""The maps that an object defines: by BTF in `.maps`, and each data section."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from policyc.verifier.bytecode.btf import Btf
from policyc.verifier.bytecode.elf import Elf, Section, SectionType
from policyc.verifier.bytecode.errors import ObjectError, UnmodelledError

SECTION = ".maps"
BPF_F_RDONLY_PROG = 0x80
MOST_BYTES = 1 << 26
"""The maximal size of a value; the largest of ours has half a megabyte."""
_DATA = (".rodata", ".data", ".bss")


class MapKind(IntEnum):
    """enum bpf_map_type: the kinds that have a model, or that no program accesses."""

    HASH = 1
    ARRAY = 2
    PROG_ARRAY = 3
    PERF_EVENT_ARRAY = 4
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    LRU_HASH = 9
    LRU_PERCPU_HASH = 10
    LPM_TRIE = 11
    DEVMAP = 14
    SOCKHASH = 18
    SK_STORAGE = 24
    DEVMAP_HASH = 25
    RINGBUF = 27


@dataclass(frozen=True, slots=True)
class MapDefinition:
    """A map as it will be created; sizes in bytes. `initial` is the value of a data section's map."""

    name: str
    kind: MapKind
    key_size: int
    value_size: int
    max_entries: int
    flags: int = 0
    pinning: int = 0
    key_type: int = 0
    value_type: int = 0
    initial: bytes = b""


def is_data(section: Section) -> bool:
    """Whether a section becomes a map of its own."""
    return any(section.name == name or section.name.startswith(f"{name}.") for name in _DATA)


def maps_of(elf: Elf, btf: Btf) -> tuple[MapDefinition, ...]:
    """All maps of an object.

    UnmodelledError for a map kind, or a part of a definition, that is not known.
    """
    data = (_data_map(section) for section in elf.sections if is_data(section))
    return (*_defined(elf, btf), *data)


def _defined(elf: Elf, btf: Btf) -> Iterator[MapDefinition]:
    if elf.has_section(SECTION):
        for variable in btf.variables(SECTION):
            yield _definition(btf, variable.name, variable.type)


def _data_map(section: Section) -> MapDefinition:
    _check_size(section.name, section.size)
    writable = not section.name.startswith(".rodata")
    initial = bytes(section.size) if section.kind == SectionType.NOBITS else section.data
    flags = 0 if writable else BPF_F_RDONLY_PROG
    return MapDefinition(section.name, MapKind.ARRAY, 4, section.size, 1, flags, initial=initial)


def _definition(btf: Btf, name: str, ident: int) -> MapDefinition:
    said: dict[str, int] = {}
    types: dict[str, int] = {}
    for member in btf.members(ident):
        match member.name:
            case "type" | "max_entries" | "map_flags" | "pinning" | "key_size" | "value_size":
                said[member.name] = btf.array(btf.pointed_to(member.type))[1]
            case "key" | "value":
                types[member.name] = btf.pointed_to(member.type)
            case _:
                raise UnmodelledError(f"the map {name} says `{member.name}`")
    for part, kind in types.items():
        said[f"{part}_size"] = btf.size(kind)
    _check_size(name, said.get("key_size", 0))
    _check_size(name, said.get("value_size", 0))
    return MapDefinition(
        name=name,
        kind=_kind(name, said.get("type", 0)),
        key_size=said.get("key_size", 0),
        value_size=said.get("value_size", 0),
        max_entries=said.get("max_entries", 0),
        flags=said.get("map_flags", 0),
        pinning=said.get("pinning", 0),
        key_type=types.get("key", 0),
        value_type=types.get("value", 0),
    )


def _check_size(name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise ObjectError(f"{name} has keys or values of {size} bytes")


def _kind(name: str, number: int) -> MapKind:
    try:
        return MapKind(number)
    except ValueError as error:
        kind = ObjectError if not number else UnmodelledError
        raise kind(f"the map {name} is of type {number}") from error
