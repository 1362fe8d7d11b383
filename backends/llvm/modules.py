# SPDX-License-Identifier: Apache-2.0
"""A module of functions over batches: the part that all of them share.

Tables stay outside the module, as arrays whose addresses are arguments of each call. A megabyte of
constants in the module would be printed, parsed and copied for nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from policyc.backends.llvm.text import Function

Array = npt.NDArray[Any]
LEAF_TABLES = ("segments", "first", "lows", "leaves")
TABLES = ("ends", "egress", "ingress", *LEAF_TABLES, "starts4", "found4", "starts6", "found6")
"""The order in which calls pass the addresses of tables; an unused table is null."""
INLINE = "alwaysinline nounwind"


@dataclass
class Module:
    """IR text, and the arrays by the names in TABLES that its functions read."""

    functions: list[str] = field(default_factory=list)
    tables: dict[str, Array] = field(default_factory=dict)

    def add(self, fn: Function) -> None:
        """Add one function."""
        self.functions.append(fn.text())

    @property
    def text(self) -> str:
        """The whole module."""
        return "\n".join(self.functions)


def pointers(*names: str) -> str:
    """The parameters that are tables."""
    return ", ".join(f"ptr %{name}" for name in names)


def given(*names: str) -> list[tuple[str, str]]:
    """The arguments for the table parameters, under the same names."""
    return [("ptr", f"%{name}") for name in names]


def loop(fn: Function, tables: tuple[str, ...], body: Callable[[str], None]) -> None:
    """A loop over the indices of a batch, with the addresses of tables available."""
    fn.begin("entry")
    for name in tables:
        at = f"getelementptr inbounds ptr, ptr %tables, i64 {TABLES.index(name)}"
        fn.do(f"%{name} = load ptr, ptr {fn.let(at)}, align 8")
    fn.do(f"br i1 {fn.let('icmp ne i64 %n, 0')}, label %loop, label %done")
    fn.begin("loop")
    fn.do("%i = phi i64 [ 0, %entry ], [ %next, %loop ]")
    body("%i")
    fn.do("%next = add nuw i64 %i, 1")
    fn.do(f"br i1 {fn.let('icmp eq i64 %next, %n')}, label %done, label %loop")
    fn.begin("done")
    fn.do("ret void")


def batch(name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Function:
    """A function for callers outside, over columns."""
    columns = [f"ptr noalias readonly %{each}" for each in inputs]
    columns += [f"ptr noalias %{each}" for each in outputs]
    return Function(
        f"define void @{name}(i64 %n, {', '.join(columns)}, ptr readonly %tables) nounwind"
    )


def store(fn: Function, bits: int, value: str, column: str, at: str) -> None:
    """Write an element of a column."""
    place = fn.let(f"getelementptr inbounds i{bits}, ptr {column}, i64 {at}")
    fn.do(f"store i{bits} {value}, ptr {place}, align {bits // 8}")
