# SPDX-License-Identifier: Apache-2.0
"""Instructions to bytes and back; what has no meaning in version 3 is refused."""

import random
import struct

import pytest

from policyc.verifier.bytecode.elf import read_elf
from policyc.verifier.bytecode.encoding import decode, encode
from policyc.verifier.bytecode.errors import InstructionError
from policyc.verifier.bytecode.instructions import (
    Instruction,
    slots,
)
from tests.unit.verifier.bytecode.every_instruction import EVERY
from tests.unit.verifier.bytecode.objects import (
    PREBUILT,
    prebuilt,
)


@pytest.mark.parametrize("instruction", EVERY, ids=repr)
def test_an_instruction_is_decoded_as_it_was_encoded(instruction: Instruction) -> None:
    code = encode(instruction)
    assert len(code) == 8 * slots(instruction)
    assert decode(code) == {0: instruction}


@pytest.mark.parametrize("name", PREBUILT)
def test_the_code_of_an_object_is_encoded_as_it_was(name: str) -> None:
    for section in read_elf(prebuilt(name)).sections:
        if section.is_code:
            assert b"".join(map(encode, decode(section.data).values())) == section.data


def test_the_decoder_ignores_no_bit() -> None:
    """Every decoded instruction is encoded to the same bytes: no bit is ignored."""
    rng = random.Random(3)
    refused = 0
    for instruction in EVERY:
        for bit in range(64 * slots(instruction)):
            code = bytearray(encode(instruction))
            code[bit // 8] ^= 1 << bit % 8
            refused += not decodes_to_itself(bytes(code))
    for _ in range(20_000):
        refused += not decodes_to_itself(rng.randbytes(8))
    assert refused > 10_000


def decodes_to_itself(code: bytes) -> bool:
    try:
        found = decode(code)
    except InstructionError:
        return False
    assert b"".join(map(encode, found.values())) == code
    return True


def raw(code: int, dst: int = 0, src: int = 0, offset: int = 0, imm: int = 0) -> bytes:
    return struct.pack("<BBhi", code, src << 4 | dst, offset, imm)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("signed division, of version 4", raw(0x3F, 1, 2, 1)),
        ("a sign-extending move, of version 4", raw(0xBF, 1, 2, 8)),
        ("an unconditional swap, of version 4", raw(0xD7, 1, imm=16)),
        ("a sign-extending load, of version 4", raw(0x81, 1, 2)),
        ("a long jump, of version 4", raw(0x06, imm=4)),
        ("the packet access of classic BPF", raw(0x20, imm=12)),
        ("the same, indirect", raw(0x40, src=1)),
        ("a load of a kind that is none", raw(0x01, 1, 2)),
        ("r11", raw(0xBF, 11, 1)),
        ("r10 written by a move", raw(0xBF, 10, 1)),
        ("r10 written by a load", raw(0x79, 10, 1)),
        ("r10 written by a fetch", raw(0xDB, 1, 10, 0, 0x01)),
        ("r10 written by a wide number", raw(0x18, 10) + raw(0)),
        ("an atomic operation on one byte", raw(0xD3, 1, 2)),
        ("an atomic operation that is none", raw(0xDB, 1, 2, 0, 0x20)),
        ("an exchange that fetches nothing", raw(0xDB, 1, 2, 0, 0xE0)),
        ("a division by zero", raw(0x37, 1, imm=0)),
        ("a shift past the width", raw(0x64, 1, imm=32)),
        ("a shift by less than nothing", raw(0x67, 1, imm=-1)),
        ("half of a wide number", raw(0x18, 1)),
        ("a wide number with another second half", raw(0x18, 1) + raw(0xBF, 1)),
        ("a wide number of an unknown kind", raw(0x18, 1, 7) + raw(0)),
        ("a call by a register", raw(0x8D, imm=1)),
        ("a call of an unknown kind", raw(0x85, src=3)),
        ("a call of a helper with an offset", raw(0x85, offset=1, imm=1)),
        ("an exit with a number", raw(0x95, imm=1)),
        ("an exit of 32 bits", raw(0x96)),
        ("a number and a register", raw(0x0F, 1, 2, imm=1)),
        ("three bytes", b"\xbf\x12\x00"),
    ],
)
def test_instructions_outside_version_3_are_refused(what: str, code: bytes) -> None:
    with pytest.raises(InstructionError):
        decode(code)
