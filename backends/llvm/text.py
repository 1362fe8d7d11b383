# SPDX-License-Identifier: Apache-2.0
"""LLVM IR as text, one function at a time: fresh names, blocks, lines. No target is assumed."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Function:
    """A function under construction. `head` is its `define`: `define i32 @f(i32 %key)`."""

    head: str
    _lines: list[str] = field(default_factory=list)
    _names: int = 0

    def let(self, expression: str) -> str:
        """Give the value of an instruction a name, which is returned."""
        self._names += 1
        name = f"%v{self._names}"
        self._lines.append(f"  {name} = {expression}")
        return name

    def do(self, instruction: str) -> None:
        """Add an instruction without a value."""
        self._lines.append(f"  {instruction}")

    def new_label(self, hint: str) -> str:
        """A label that no other block has."""
        self._names += 1
        return f"{hint}{self._names}"

    def begin(self, label: str) -> None:
        """Begin this block: the next instruction is its first."""
        self._lines.append(f"{label}:")

    def call(self, result: str, name: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Call a function with (type, value) arguments; the name of its result."""
        given = ", ".join(f"{kind} {value}" for kind, value in arguments)
        return self.let(f"call {result} @{name}({given})")

    def load(self, bits: int, pointer: str, index: str) -> str:
        """Element `index` (an i64) of an array of `bits`-wide numbers."""
        at = self.let(f"getelementptr inbounds i{bits}, ptr {pointer}, i64 {index}")
        return self.let(f"load i{bits}, ptr {at}, align {min(bits // 8, 8)}")

    def widened(self, value: str, bits: int, to: int) -> str:
        """A value of `bits` as one of `to` bits, filled with zeros."""
        return value if bits == to else self.let(f"zext i{bits} {value} to i{to}")

    def text(self) -> str:
        """The whole function."""
        return "\n".join([f"{self.head} {{", *self._lines, "}", ""])
