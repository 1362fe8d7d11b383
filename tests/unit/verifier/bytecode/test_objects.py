# SPDX-License-Identifier: Apache-2.0
"""Objects are read as they are; damaged ones are errors, whatever is damaged in them."""

import random
import struct
from bisect import bisect_left, bisect_right

import pytest

from policyc.compiler.driver.compile.target import Backend
from policyc.runtime.kernel.btf import Btf as RuntimeBtf
from policyc.verifier.bytecode.btf import read_btf
from policyc.verifier.bytecode.core_relocations import CoreKind, CoreRelocation
from policyc.verifier.bytecode.definitions import MapKind
from policyc.verifier.bytecode.elf import read_elf
from policyc.verifier.bytecode.errors import BytecodeError, ObjectError, UnmodelledError
from policyc.verifier.bytecode.linked import CallFunction, CallHelper, CallKfunc, LoadMap, Poisoned
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.bytecode.program import Program, link_program, successors
from tests.property.length import examples
from tests.slices import one_in
from tests.unit.verifier.bytecode.objects import (
    CASES,
    PREBUILT,
    SomeKernel,
    policy_object,
    prebuilt,
)


def every_program(read: BpfObject) -> dict[str, Program]:
    return {entry: link_program(read, entry, SomeKernel()) for entry in read.entries}


@pytest.mark.parametrize("name", PREBUILT)
def test_every_program_of_a_prebuilt_object_is_linked(name: str) -> None:
    read = read_object(prebuilt(name))
    programs = every_program(read)
    assert programs
    for program in programs.values():
        calls = [i for f in program.functions.values() for i in f.code.values()]
        named = {i.name for i in calls if isinstance(i, CallFunction)}
        assert named == program.functions.keys() - {program.entry}
        assert {i.map for i in calls if isinstance(i, LoadMap)} <= program.maps.keys()
        assert {i.name for i in calls if isinstance(i, CallKfunc)} <= {"bpf_cast_to_kern_ctx"}


@pytest.mark.parametrize(
    ("case", "backend"),
    [
        pytest.param(case, backend, marks=pytest.mark.slow if (at + of) % 2 or at % 4 > 1 else ())
        for at, case in enumerate(CASES)
        for of, backend in enumerate(Backend)
    ],
)
def test_the_policy_program_of_a_golden_bundle_is_linked(case: str, backend: Backend) -> None:
    read = read_object(policy_object(case, backend))
    program = link_program(read, "pc_policy_run")
    helpers = {
        i for i in program.functions[program.entry].code.values() if isinstance(i, CallHelper)
    }
    assert {i.number for i in helpers} == {1, 2, 7, 12}
    assert program.maps["pc_scratch"].kind is MapKind.PERCPU_ARRAY
    nat = read.btf.place("pc_flow", "nat")
    assert program.maps["pc_scratch"].value_size == nat.offset + nat.size, "it is the last member"


@pytest.mark.parametrize("name", one_in(2, PREBUILT))
def test_blocks_are_a_partition_of_the_code_and_agree_with_its_successors(name: str) -> None:
    for program in every_program(read_object(prebuilt(name))).values():
        for function in program.functions.values():
            slots, covered = sorted(function.code), list[int]()
            for start, block in function.blocks.items():
                covered += slots[bisect_left(slots, start) : bisect_right(slots, block.last)]
                assert block.successors == successors(block.last, function.code[block.last])
                assert set(block.successors) <= function.blocks.keys()
            assert sorted(covered) == slots


def test_layouts_are_those_that_the_runtime_reads() -> None:
    data = read_elf(prebuilt("hooks.bpf.o")).section(".BTF").data
    here, there = read_btf(data), RuntimeBtf(data)
    for name in ("pc_flow", "pc_ct", "pc_endpoint", "pc_tuple"):
        for field, place in there.struct(name).fields.items():
            found = here.place(name, field)
            assert (found.offset, found.size) == (place.offset, place.size), f"{name}.{field}"


def test_members_are_found_by_path() -> None:
    btf = read_object(prebuilt("hooks.bpf.o")).btf
    src, ident = btf.place("pc_flow", "src"), btf.place("pc_endpoint", "flags")
    assert btf.offset_of("pc_flow", "src.flags") == src.offset + ident.offset
    words = [btf.offset_of("pc_flow", f"tuple.daddr.word[{i}]") for i in range(4)]
    assert [each - words[0] for each in words] == [0, 4, 8, 12]
    assert btf.place("pc_ct", "src.nat.backend").size == 4, "through a union without a name"


@pytest.mark.parametrize(
    ("struct_name", "path"),
    [
        ("pc_flow", "nothing"),
        ("pc_flow", "src.nothing"),
        ("pc_flow", "src..id"),
        ("pc_flow", "tuple.daddr.word[4]"),
        ("pc_flow", "src[0]"),
        ("pc_flow", ""),
        ("no_struct", "src"),
        ("pc_flow", "now.more"),
    ],
)
def test_a_path_that_leads_nowhere_is_an_error(struct_name: str, path: str) -> None:
    with pytest.raises(ObjectError):
        read_object(prebuilt("hooks.bpf.o")).btf.place(struct_name, path)


def test_kernel_dependent_code_needs_a_kernel() -> None:
    with pytest.raises(UnmodelledError, match="kernel's types"):
        link_program(read_object(prebuilt("hooks.bpf.o")), "pc_from_pod")


def test_an_access_of_another_size_than_the_kernel_has_is_refused() -> None:
    class Wider(SomeKernel):
        def answer(self, relocation: CoreRelocation) -> int | None:
            return 4 if relocation.kind is CoreKind.FIELD_BYTE_SIZE else super().answer(relocation)

    with pytest.raises(UnmodelledError, match="2 bytes to 4"):
        link_program(read_object(prebuilt("hooks.bpf.o")), "pc_from_pod", Wider())


def test_missing_kernel_features_are_linked_as_unreachable_code() -> None:
    class Older(SomeKernel):
        def answer(self, relocation: CoreRelocation) -> int | None:
            return None if relocation.access == "0:3" else super().answer(relocation)

    program = link_program(read_object(prebuilt("hooks.bpf.o")), "pc_from_pod", Older())
    code = [i for function in program.functions.values() for i in function.code.values()]
    assert any(isinstance(each, Poisoned) for each in code)


def read_all(data: bytes) -> None:
    """Everything that is looked at of an object."""
    read = read_object(data)
    for program in every_program(read).values():
        for function in program.functions.values():
            assert function.blocks


def outcome(data: bytes) -> str:
    """A damaged object is read, or refused by a declared error."""
    try:
        read_all(data)
    except BytecodeError as error:
        return type(error).__name__
    return "read"


def test_a_truncated_object_is_an_error() -> None:
    whole = prebuilt("sockets.bpf.o")
    rng = random.Random(1)
    for size in (0, 1, 16, 63, 64, len(whole) - 1, *(rng.randrange(len(whole)) for _ in range(60))):
        assert outcome(whole[:size]) == "ObjectError", size


def test_an_object_with_a_flipped_bit_is_read_or_refused() -> None:
    whole = prebuilt("sockets.bpf.o")
    rng = random.Random(2)
    seen = set()
    for at in damaged_places(whole, rng):
        data = bytearray(whole)
        data[at] ^= 1 << rng.randrange(8)
        seen.add(outcome(bytes(data)))
    assert {"read", "ObjectError", "InstructionError"} <= seen


def damaged_places(whole: bytes, rng: random.Random) -> list[int]:
    """In headers, tables, code and types: more where bytes mean more."""
    (table,) = struct.unpack_from("<Q", whole, 40)
    elf = read_elf(whole)
    places = list(range(64))
    places += [table + rng.randrange(64 * len(elf.sections)) for _ in range(examples(60, 2))]
    for section in elf.sections:
        start = whole.find(section.data) if section.data else 0
        places += [
            start + rng.randrange(len(section.data)) for _ in range(examples(8, 2)) if section.data
        ]
    return places


def test_a_file_of_another_kind_is_an_error() -> None:
    for data in (
        b"",
        b"\x7fELF",
        bytes(64),
        b"\x7fELF\x01\x01\x01" + bytes(100),
        b"BC\xc0\xde" * 99,
    ):
        with pytest.raises(ObjectError):
            read_object(data)


def test_a_false_size_of_a_symbol_table_is_refused() -> None:
    whole = bytearray(prebuilt("sockets.bpf.o"))
    (table,) = struct.unpack_from("<Q", whole, 40)
    for section in read_elf(bytes(whole)).sections[1:]:
        data = bytearray(whole)
        struct.pack_into("<Q", data, table + 64 * section.index + 32, 1 << 60)
        with pytest.raises(ObjectError):
            read_object(bytes(data))
