# SPDX-License-Identifier: Apache-2.0
"""Trees and switches as LLVM IR: every border, on this processor; and no target is assumed."""

import ctypes
from bisect import bisect_right
from itertools import pairwise

import pytest
from llvmlite import binding

from policyc.backends.llvm.search import emit_search
from policyc.backends.llvm.text import Function
from policyc.backends.llvm.trees import (
    DoubleBuffer,
    Key,
    Steps,
    Word,
    depth,
    emit_switch,
    emit_tree,
    returns,
)

SETS: dict[int, list[int]] = {
    32: [0, 1, 2, 80, 443, 1 << 31, (1 << 32) - 1],
    64: [0, 7, 1 << 32, 1 << 63, (1 << 64) - 1],
    128: [0, 5, 1 << 64, (1 << 64) + 1, (1 << 65) - 1, 0xFE80 << 112, (1 << 128) - 1],
}


def steps_of(starts: list[int]) -> Steps:
    return [(start, 10 + at) for at, start in enumerate(starts)]


def leaf_of(steps: Steps, key: int) -> int:
    return steps[bisect_right([start for start, _ in steps], key) - 1][1]


def near(steps: Steps, bits: int) -> list[int]:
    found = {start + step for start, _ in steps for step in (-1, 0, 1)}
    return sorted(key for key in found if 0 <= key < 1 << bits)


def key_of(bits: int) -> tuple[str, Key]:
    """Parameters, and the key in them."""
    if bits == 128:
        return "i64 %high, i64 %low", DoubleBuffer("%high", "%low")
    return f"i{bits} %key", Word("%key", bits)


class Called:
    """Functions of a text, compiled for this process."""

    def __init__(self, text: str) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        module = binding.parse_assembly(text)
        module.verify()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def __call__(self, name: str, arguments: list[tuple[int, int]]) -> int:
        """Call with (bits, value) arguments."""
        kinds = [ctypes.c_uint32 if bits == 32 else ctypes.c_uint64 for bits, _ in arguments]
        function = ctypes.CFUNCTYPE(ctypes.c_uint32, *kinds)
        address = self.engine.get_function_address(name)
        return int(function(address)(*(value for _, value in arguments)))


def arguments_of(key: int, bits: int) -> list[tuple[int, int]]:
    return [(64, key >> 64), (64, key & (1 << 64) - 1)] if bits == 128 else [(bits, key)]


def tree_text(steps: Steps, bits: int) -> str:
    parameters, key = key_of(bits)
    fn = Function(f"define i32 @tree({parameters})")
    emit_tree(fn, key, steps, returns(32))
    return fn.text()


@pytest.mark.parametrize("bits", SETS)
def test_a_tree_gives_the_leaf_of_the_last_threshold_that_is_not_above(bits: int) -> None:
    for count in range(1, len(SETS[bits]) + 1):
        steps = steps_of(SETS[bits][:count])
        called = Called(tree_text(steps, bits))
        for key in near(steps, bits):
            assert called("tree", arguments_of(key, bits)) == leaf_of(steps, key), (count, key)


def test_a_tree_is_balanced() -> None:
    for count in range(1, 70):
        steps = steps_of(list(range(count)))
        assert tree_text(steps, 32).count("icmp") == count - 1
        assert depth(steps) == (count - 1).bit_length()


def test_a_switch_selects_its_tree_and_its_default() -> None:
    trees = {0: steps_of([0, 80, 81]), 3: ((0, 77),), 9: steps_of([0, 1 << 16])}
    fn = Function("define i32 @pick(i32 %which, i32 %key)")
    emit_switch(fn, Word("%which", 32), trees, Word("%key", 32), returns(32), otherwise=99)
    called = Called(fn.text())
    for which, steps in trees.items():
        for key in near(steps, 32):
            assert called("pick", [(32, which), (32, key)]) == leaf_of(steps, key)
    assert [called("pick", [(32, which), (32, 80)]) for which in (1, 2, 10)] == [99] * 3


@pytest.mark.parametrize("bits", SETS)
def test_trees_are_code_for_bpf_as_well(bits: int) -> None:
    text = tree_text(steps_of(SETS[bits]), bits)
    assert "i128" not in text
    assert "unreachable" not in text
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(text)
    module.verify()
    machine = binding.Target.from_triple("bpfel").create_target_machine(codemodel="default")
    assembly = machine.emit_assembly(module)
    assert assembly.count("exit") >= 1
    assert "call" not in assembly


def test_search_and_tree_agree() -> None:
    table = (ctypes.c_uint32 * 9)(0, 3, 4, 9, 100, 1000, 1 << 20, 1 << 31, (1 << 32) - 1)
    assert all(low < high for low, high in pairwise(table))
    for count in range(1, len(table) + 1):
        fn = Function("define i32 @search(i64 %table, i32 %key)")
        pointer = fn.let("inttoptr i64 %table to ptr")
        found = emit_search(fn, pointer, count, "%key", 32)
        fn.do(f"ret i32 {fn.let(f'trunc i64 {found} to i32')}")
        called = Called(fn.text())
        starts = list(table[:count])
        for key in near([(start, 0) for start in starts], 32):
            given = [(64, ctypes.addressof(table)), (32, key)]
            assert called("search", given) == bisect_right(starts, key) - 1
