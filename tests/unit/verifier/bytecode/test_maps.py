# SPDX-License-Identifier: Apache-2.0
"""Maps and helpers on numbers: what the kernel's give back, and what is not known of them."""

import struct

import pytest

from policyc.verifier.bytecode.concrete import Around, resume, run
from policyc.verifier.bytecode.definitions import BPF_F_RDONLY_PROG, MapDefinition, MapKind
from policyc.verifier.bytecode.errors import FaultError, UnmodelledError
from policyc.verifier.bytecode.helpers import ASKED, MODELS, Helper
from policyc.verifier.bytecode.instructions import Exit, Imm, JumpIf, JumpOp, Load, Reg, Store
from policyc.verifier.bytecode.linked import (
    CallHelper,
    CallKfunc,
    Linked,
    LoadMap,
    LoadMapValue,
    LoadNumber,
)
from policyc.verifier.bytecode.machine import TailCall
from policyc.verifier.bytecode.maps import empty_map
from policyc.verifier.bytecode.oracle import Answer, Oracle
from policyc.verifier.bytecode.pointers import Pointer
from policyc.verifier.bytecode.program import Function, Program
from policyc.verifier.bytecode.state import State
from tests.unit.verifier.bytecode.machines import (
    ARRAY,
    FP,
    HASH,
    LRU,
    RING,
    TRIE,
    add,
    around,
    ended,
    lookup,
    mov,
    placed,
    result,
)

ERRNO = {name: (1 << 32) - number for name, number in
         {"ENOENT": 2, "E2BIG": 7, "EFAULT": 14, "EEXIST": 17, "EINVAL": 22}.items()}  # fmt: skip
ANY, NOEXIST, EXIST = 0, 1, 2


def key(number: int) -> bytes:
    return struct.pack("<I", number)


def update(name: str, number: int, flags: int) -> tuple[Linked, ...]:
    """r0 = an update of a key by sixteen bytes of the stack."""
    return (
        Store(4, FP, -4, Imm(number)),
        Store(8, FP, -24, Imm(77)),
        Store(8, FP, -16, Imm(78)),
        mov(2, Reg(FP)),
        add(2, -4),
        mov(3, Reg(FP)),
        add(3, -24),
        mov(4, flags),
        LoadMap(1, name),
        CallHelper(2),
    )


def delete(name: str, number: int) -> tuple[Linked, ...]:
    return (*lookup(name, number)[:-1], CallHelper(3))


@pytest.mark.parametrize(
    ("what", "code", "expected"),
    [
        ("set", update("array", 3, ANY), 0),
        ("set what is there", update("array", 3, EXIST), 0),
        ("set what is not there", update("array", 3, NOEXIST), ERRNO["EEXIST"]),
        ("set past the end", update("array", 4, ANY), ERRNO["E2BIG"]),
        ("unknown flags", update("array", 0, 4), ERRNO["EINVAL"]),
        ("delete", delete("array", 0), ERRNO["EINVAL"]),
        ("look up past the end", lookup("array", 4), 0),
        ("insert", update("hash", 3, ANY), 0),
        ("insert only", update("hash", 3, NOEXIST), 0),
        ("replace what is not there", update("hash", 3, EXIST), ERRNO["ENOENT"]),
        ("delete what is not there", delete("hash", 3), ERRNO["ENOENT"]),
        ("look up what is not there", lookup("hash", 3), 0),
        ("insert twice", update("hash", 3, ANY) + update("hash", 3, NOEXIST), ERRNO["EEXIST"]),
        ("delete what was inserted", update("hash", 3, ANY) + delete("hash", 3), 0),
        (
            "a third of two",
            update("hash", 1, ANY) + update("hash", 2, ANY) + update("hash", 3, ANY),
            ERRNO["E2BIG"],
        ),
        (
            "one of two, again",
            update("hash", 1, ANY) + update("hash", 2, ANY) + update("hash", 2, ANY),
            0,
        ),
    ],
)
def test_return_values_of_map_helpers(what: str, code: tuple[Linked, ...], expected: int) -> None:
    assert result(*code) == expected


def test_an_array_is_updated_where_it_is() -> None:
    code = (*lookup("array", 2), mov(6, Reg(0)), *update("array", 2, ANY), Load(8, 0, 6, 8))
    assert result(*code) == 78


def test_a_replaced_value_of_a_hash_cannot_be_used() -> None:
    code = (
        *update("hash", 2, ANY),
        *lookup("hash", 2),
        JumpIf(JumpOp.JEQ, 64, 0, Imm(0), 0),
        mov(6, Reg(0)),
    )
    assert result(*code, Load(8, 0, 6, 0)) == 77
    with pytest.raises(FaultError, match="none any more"):
        result(*code, *update("hash", 2, ANY), Load(8, 0, 6, 0))
    with pytest.raises(FaultError, match="none any more"):
        result(*code, *delete("hash", 2), Load(8, 0, 6, 0))


def test_an_lru_that_may_evict_is_not_known() -> None:
    with pytest.raises(UnmodelledError, match="evict"):
        result(*(each for number in range(3) for each in update("lru", number, ANY)))


def test_writes_are_visible_to_user_space() -> None:
    about = around(*update("hash", 9, ANY), Exit())
    assert run(about).result == 0
    assert about.map("hash").items() == {key(9): struct.pack("<Q", 77)}
    assert about.map("hash").get(key(9)) == struct.pack("<Q", 77)


def test_the_longest_prefix_is_found() -> None:
    trie = empty_map(TRIE)
    state = run(around(mov(0, 0), Exit())).state
    for length, first, value in ((0, 0, 1), (8, 10, 2), (24, 10, 3), (32, 10, 4)):
        trie.put(key(length) + bytes([first, 0, 0, 0]), key(value))
    for address, length, value in (
        (b"\x0a\0\0\0", 32, 4), (b"\x0a\0\0\1", 32, 3), (b"\x0a\0\1\1", 32, 2), (b"\x0b\0\0\0", 32, 1),
        (b"\x0a\0\0\0", 31, 3), (b"\x0a\0\0\0", 0, 1),
    ):  # fmt: skip
        found = trie.lookup(state, key(length) + address)
        assert isinstance(found, Pointer)
        assert state.load(found, 4) == value, (address, length)
    assert trie.lookup(state, key(33) + bytes(4)) == 0
    assert len(trie.items()) == 4


def test_a_program_cannot_write_to_a_read_only_data_section() -> None:
    data = MapDefinition(".rodata", MapKind.ARRAY, 4, 8, 1, BPF_F_RDONLY_PROG, initial=b"ABCDEFGH")
    load: tuple[Linked, ...] = (LoadMapValue(1, ".rodata", 2), Load(2, 0, 1, 1), Exit())

    def ran(code: tuple[Linked, ...]) -> int | TailCall:
        program = Program("main", {"main": Function("main", placed(code))}, {data.name: data})
        return run(Around(program)).result

    assert ran(load) == int.from_bytes(b"DE", "little")
    with pytest.raises(FaultError, match="only be read"):
        ran((LoadMapValue(1, ".rodata", 2), Store(1, 1, 0, Imm(1)), mov(0, 0), Exit()))


# --- helpers ------------------------------------------------------------------------------------


class Says(Oracle):
    """Gives the same answer to every question, and records the questions."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[str] = []

    def answer(self, state: State, name: str) -> Answer:
        self.asked.append(name)
        return self._answer


def test_every_known_helper_has_a_model_or_is_asked_about() -> None:
    assert MODELS.keys() | ASKED == set(Helper)
    assert not MODELS.keys() & ASKED


def test_the_oracle_answers_helpers_and_kfuncs() -> None:
    oracle = Says(Answer(-3))
    about = around(CallHelper(Helper.KTIME_GET_NS), Exit(), oracle=oracle)
    assert run(about).result == (1 << 32) - 3
    kfunc = around(CallKfunc("bpf_some"), Exit(), oracle=oracle)
    assert run(kfunc).result == (1 << 32) - 3
    assert oracle.asked == ["KTIME_GET_NS", "bpf_some"]


FIB: tuple[Linked, ...] = (
    mov(2, Reg(FP)),
    add(2, -64),
    mov(3, 64),
    mov(4, 0),
    CallHelper(Helper.FIB_LOOKUP),
    Load(4, 0, FP, -64),
    Exit(),
)


def test_writes_of_a_helper_must_be_declared() -> None:
    with pytest.raises(UnmodelledError, match="r2"):
        run(around(*FIB, oracle=Says(Answer(0))), bytes(64))
    written = Says(Answer(0, {2: b"\x07" + bytes(63)}))
    assert run(around(*FIB, oracle=written), bytes(64)).result == 7


def test_a_helper_that_changes_the_packet_ends_its_pointers() -> None:
    code: tuple[Linked, ...] = (
        mov(6, Reg(1)),
        Load(4, 7, 1, 76),
        mov(2, 20),
        mov(3, 0),
        CallHelper(Helper.SKB_CHANGE_TAIL),
    )
    shorter = Says(Answer(0, packet=b"x" * 20))
    length: tuple[Linked, ...] = (Load(4, 0, 6, 0), Exit())
    assert run(around(*code, *length, oracle=shorter), bytes(64)).result == 20
    for oracle in (shorter, Says(Answer(0))):
        with pytest.raises(FaultError, match="none any more"):
            run(around(*code, Load(1, 0, 7, 0), Exit(), oracle=oracle), bytes(64))


def bytes_of_packet(offset: int, size: int) -> tuple[Linked, ...]:
    """r0 = bpf_skb_load_bytes() to the stack at -16."""
    return (
        mov(2, offset),
        mov(3, Reg(FP)),
        add(3, -16),
        mov(4, size),
        CallHelper(Helper.SKB_LOAD_BYTES),
    )


def test_bytes_of_the_packet() -> None:
    assert result(*bytes_of_packet(60, 4)) == 0
    assert result(*bytes_of_packet(60, 4), Load(4, 0, FP, -16)) == 0x3F3E3D3C
    for offset, size in ((61, 4), (64, 1), (-1, 4)):
        assert result(*bytes_of_packet(offset, size)) == ERRNO["EFAULT"]
        assert result(*bytes_of_packet(offset, size), Load(1, 0, FP, -16)) == 0, "it is cleared"
    with pytest.raises(FaultError):
        result(*bytes_of_packet(0, 0))


def test_a_tail_call_ends_the_run_and_may_be_refused() -> None:
    code: tuple[Linked, ...] = (
        LoadMap(2, "programs"),
        mov(3, 1),
        CallHelper(12),
        mov(0, 5),
        Exit(),
    )
    about = around(*code)
    left = run(about, bytes(64))
    assert left.result == TailCall("programs", 1)
    assert resume(about, left.state).result == 5
    without = around(*code[:3], Exit())
    with pytest.raises(FaultError, match="r0"):
        resume(without, run(without, bytes(64)).state)


RESERVE: tuple[Linked, ...] = (
    LoadMap(1, "ring"),
    mov(2, 24),
    mov(3, 0),
    CallHelper(131),
    mov(6, Reg(0)),
    Store(8, 0, 8, Imm(9)),
    mov(1, Reg(6)),
    mov(2, 0),
)


def test_records_of_a_ring_buffer() -> None:
    about = around(*RESERVE, CallHelper(132), mov(0, 0), Exit())
    assert run(about).result == 0
    (record,) = about.ring("ring").records
    assert record.load(8, 8) == 9
    with pytest.raises(FaultError, match="never written"):
        record.load(0, 8)
    discarded = around(*RESERVE, CallHelper(133), mov(0, 0), Exit())
    assert run(discarded).result == 0
    assert not discarded.ring("ring").records


@pytest.mark.parametrize("give_back", [132, 133])
def test_a_submitted_record_cannot_be_used(give_back: int) -> None:
    with pytest.raises(FaultError, match="none any more"):
        result(*RESERVE, CallHelper(give_back), Load(8, 0, 6, 8))
    with pytest.raises(FaultError, match="r0"):
        result(*RESERVE, CallHelper(give_back))


def test_a_ring_buffer_refuses_records_beyond_its_size() -> None:
    ring = around(Exit()).ring("ring")
    state = ended(mov(0, 0), Exit()).state
    assert ring.reserve(state, 8, 1) == 0, "flags"
    assert ring.reserve(state, RING.max_entries, 0) == 0
    assert ring.reserve(state, RING.max_entries // 2 - 8, 0) != 0
    assert ring.reserve(state, RING.max_entries // 2 - 16, 0) != 0
    assert ring.reserve(state, 8, 0) == 0


@pytest.mark.parametrize("definition", [ARRAY, HASH, LRU, TRIE])
def test_sizes_are_checked(definition: MapDefinition) -> None:
    with pytest.raises(UnmodelledError):
        empty_map(definition).put(bytes(definition.key_size), bytes(definition.value_size + 1))


def test_a_lookup_in_a_map_without_a_model_is_refused() -> None:
    with pytest.raises(UnmodelledError, match="PROG_ARRAY"):
        result(*lookup("programs", 0))
    with pytest.raises(FaultError, match="no map"):
        result(LoadNumber(1, 5), mov(1, Reg(FP)), CallHelper(1))
