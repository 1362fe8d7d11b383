# SPDX-License-Identifier: Apache-2.0
"""Lowering of nodes to terms of Z3 or bitwuzla, each node once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from policyc.verifier.bytecode.nodes import (
    ALL,
    CONCAT,
    EQ,
    EXTRACT,
    ITE,
    NOT,
    SIGN,
    SLT,
    ULT,
    VARIABLE,
    Node,
)
from policyc.verifier.bytecode.values import Op
from policyc.verifier.smt.lazy_z3 import z3


class Language(Protocol):
    """The constructors of a solver's terms. `kind` is an operation of nodes, on terms of the solver."""

    def variable(self, name: str, width: int) -> Any:
        """A constant with so many bits; width 0 is a truth value."""

    def number(self, value: int, width: int) -> Any:
        """A known bit string."""

    def truth(self, value: bool) -> Any:
        """A known truth value."""

    def apply(self, kind: str, args: Sequence[Any], indices: Sequence[int]) -> Any:
        """An operation.

        Indices: of EXTRACT the highest and the lowest bit, of SIGN the number of added bits.
        """


class Lowering:
    """Nodes as terms of a language; each lowered node is cached."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._made: dict[Node, Any] = {}

    def __call__(self, term: Any) -> Any:
        """The term of a truth node, or of a truth value."""
        if isinstance(term, bool):
            return self.language.truth(term)
        made = self._made
        if term not in made:
            for node in self._missing(term):
                made[node] = self._lowered(node)
        return made[term]

    def _missing(self, root: Node) -> list[Node]:
        """As `below`, without nodes that were lowered before."""
        made, found, work = self._made, [], [root]
        seen: set[Node] = set()
        while work:
            node = work[-1]
            if node in seen:
                work.pop()
                continue
            missing = [each for each in node.children if each not in made and each not in seen]
            if missing:
                work += missing
                continue
            work.pop()
            seen.add(node)
            found.append(node)
        return found

    def _of(self, bits: Any, width: int) -> Any:
        return self._made[bits] if type(bits) is Node else self.language.number(bits, width)

    def _lowered(self, node: Node) -> Any:
        op, args, apply = node.op, node.args, self.language.apply
        if op is VARIABLE:
            return self.language.variable(args[0], node.width)
        if op is NOT or op is ALL:
            return apply(op, [self._made[each] for each in args], ())
        if op in (EQ, ULT, SLT):
            return apply(op, [self._of(each, node.of_width) for each in args], ())
        if op is ITE:
            arms = [self._of(each, node.width) for each in args[1:]]
            return apply(op, [self._made[args[0]], *arms], ())
        if op is EXTRACT:
            low: int = args[1]
            return apply(op, [self._made[args[0]]], (low + node.width - 1, low))
        if op is CONCAT:
            parts = zip(args[-2::-2], args[-1::-2], strict=True)
            return apply(op, [self._of(bits, width) for bits, width in parts], ())
        if op is SIGN:
            return apply(op, [self._made[args[0]]], (node.width - args[0].width,))
        return self._computed(Op(op), node)

    def _computed(self, op: Op, node: Node) -> Any:
        """Division by zero and shift counts as BPF defines them (`values.py`)."""
        width, language = node.width, self.language
        a, b = (self._of(each, width) for each in node.args)
        if op in (Op.SHL, Op.LSHR, Op.ASHR):
            if width & (width - 1):
                count = language.apply(Op.UMOD.value, [b, language.number(width, width)], ())
            else:  # modulo a power of two; one bit cannot be shifted
                count = language.apply(Op.AND.value, [b, language.number(width - 1, width)], ())
            return language.apply(op.value, [a, count], ())
        found = language.apply(op.value, [a, b], ())
        if op in (Op.UDIV, Op.UMOD):
            is_zero = language.apply(EQ, [b, language.number(0, width)], ())
            instead = language.number(0, width) if op is Op.UDIV else a
            return language.apply(ITE, [is_zero, instead, found], ())
        return found


class Z3Language:
    """Terms of Z3."""

    def variable(self, name: str, width: int) -> Any:
        """The variable with a name."""
        return z3.BitVec(name, width) if width else z3.Bool(name)

    def number(self, value: int, width: int) -> Any:
        """A value."""
        return z3.BitVecVal(value, width)

    def truth(self, value: bool) -> Any:
        """True or false."""
        return z3.BoolVal(value)

    def apply(self, kind: str, args: Sequence[Any], indices: Sequence[int]) -> Any:
        """Each operation is one function of Z3."""
        return _Z3[kind](*args, *indices)


_Z3: Mapping[str, Callable[..., Any]] = {
    NOT: lambda a: z3.Not(a),
    ALL: lambda *each: z3.And(*each),
    EQ: lambda a, b: a == b,
    ULT: lambda a, b: z3.ULT(a, b),
    SLT: lambda a, b: a < b,
    ITE: lambda condition, a, b: z3.If(condition, a, b),
    EXTRACT: lambda a, high, low: z3.Extract(high, low, a),
    CONCAT: lambda *each: z3.Concat(*each),
    SIGN: lambda a, more: z3.SignExt(more, a),
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "udiv": lambda a, b: z3.UDiv(a, b),
    "umod": lambda a, b: z3.URem(a, b),
    "or": lambda a, b: a | b,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lshr": lambda a, b: z3.LShR(a, b),
    "ashr": lambda a, b: a >> b,
}


class BitwuzlaLanguage:
    """Terms of bitwuzla, of one manager. HostError if bitwuzla is not installed."""

    def __init__(self, bitwuzla: Any) -> None:
        self._manager = bitwuzla.TermManager()
        self._kinds = {kind: getattr(bitwuzla.Kind, name) for kind, name in _BITWUZLA.items()}
        self._variables: dict[tuple[str, int], Any] = {}
        self._sorts: dict[int, Any] = {}

    @property
    def manager(self) -> Any:
        """The owner of the terms."""
        return self._manager

    def variable(self, name: str, width: int) -> Any:
        """One variable per name: bitwuzla itself would make a new one each time."""
        key = name, width
        if key not in self._variables:
            self._variables[key] = self._manager.mk_const(self._sort(width), name)
        return self._variables[key]

    def _sort(self, width: int) -> Any:
        if width not in self._sorts:
            manager = self._manager
            self._sorts[width] = manager.mk_bv_sort(width) if width else manager.mk_bool_sort()
        return self._sorts[width]

    def number(self, value: int, width: int) -> Any:
        """A value."""
        return self._manager.mk_bv_value(self._sort(width), value)

    def truth(self, value: bool) -> Any:
        """True or false."""
        return self._manager.mk_true() if value else self._manager.mk_false()

    def apply(self, kind: str, args: Sequence[Any], indices: Sequence[int]) -> Any:
        """Each operation is one kind of bitwuzla's terms."""
        return self._manager.mk_term(self._kinds[kind], list(args), list(indices))


_BITWUZLA = {
    NOT: "NOT",
    ALL: "AND",
    EQ: "EQUAL",
    ULT: "BV_ULT",
    SLT: "BV_SLT",
    ITE: "ITE",
    EXTRACT: "BV_EXTRACT",
    CONCAT: "BV_CONCAT",
    SIGN: "BV_SIGN_EXTEND",
    "add": "BV_ADD",
    "sub": "BV_SUB",
    "mul": "BV_MUL",
    "udiv": "BV_UDIV",
    "umod": "BV_UREM",
    "or": "BV_OR",
    "and": "BV_AND",
    "xor": "BV_XOR",
    "shl": "BV_SHL",
    "lshr": "BV_SHR",
    "ashr": "BV_ASHR",
}
