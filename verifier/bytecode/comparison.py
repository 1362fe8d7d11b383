# SPDX-License-Identifier: Apache-2.0
"""Conditional jump tests: on numbers, on pointers into one region, on a pointer that may be null."""

from dataclasses import dataclass

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.instructions import Imm, JumpIf, JumpOp
from policyc.verifier.bytecode.pointers import Pointer, Region, Value
from policyc.verifier.bytecode.state import State, sure
from policyc.verifier.bytecode.values import Bits, Cmp, Domain, Op, Truth, mask

_COMPARED = {  # the comparison, whether to swap its operands, whether to negate it
    JumpOp.JEQ: (Cmp.EQ, False, False),
    JumpOp.JNE: (Cmp.EQ, False, True),
    JumpOp.JLT: (Cmp.ULT, False, False),
    JumpOp.JLE: (Cmp.ULE, False, False),
    JumpOp.JGT: (Cmp.ULT, True, False),
    JumpOp.JGE: (Cmp.ULE, True, False),
    JumpOp.JSLT: (Cmp.SLT, False, False),
    JumpOp.JSLE: (Cmp.SLE, False, False),
    JumpOp.JSGT: (Cmp.SLT, True, False),
    JumpOp.JSGE: (Cmp.SLE, True, False),
}
_OF_OFFSETS = {Cmp.EQ: Cmp.EQ, Cmp.ULT: Cmp.SLT, Cmp.ULE: Cmp.SLE}
"""Addresses do not wrap within a region and around it (the kernel keeps offsets small)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition; with a `subject` it says whether the pointers to that region are null."""

    condition: Truth
    subject: Region | None = None
    is_null_if_true: bool = False


def compare(state: State, i: JumpIf) -> Asked:
    """The condition under which a jump is taken."""
    a = state.read(i.dst)
    b = i.src.value & mask(i.width) if isinstance(i.src, Imm) else state.read(i.src.number)
    if isinstance(a, Pointer) or isinstance(b, Pointer):
        return _of_pointers(state.domain, i, a, b)
    low = state.domain.truncate(a, i.width, 64)
    other = b if isinstance(i.src, Imm) else state.domain.truncate(b, i.width, 64)
    return Asked(_of_numbers(state.domain, i, low, other))


def _of_numbers(domain: Domain, i: JumpIf, a: Bits, b: Bits) -> Truth:
    if i.op is JumpOp.JSET:
        common = domain.binary(Op.AND, a, b, i.width)
        return domain.no(domain.compare(Cmp.EQ, common, 0, i.width))
    return _ordered(domain, i.op, a, b, i.width)


def _ordered(domain: Domain, op: JumpOp, a: Bits, b: Bits, width: int) -> Truth:
    cmp, is_swapped, is_contrary = _COMPARED[op]
    found = domain.compare(cmp, b, a, width) if is_swapped else domain.compare(cmp, a, b, width)
    return domain.no(found) if is_contrary else found


def _of_pointers(domain: Domain, i: JumpIf, a: Value, b: Value) -> Asked:
    if i.width == 64 and isinstance(a, Pointer) and isinstance(b, Pointer):
        return Asked(_of_offsets(domain, i.op, sure(a), sure(b)))
    pointer, other = (a, b) if isinstance(a, Pointer) else (b, a)
    is_null_asked = i.width == 64 and i.op in (JumpOp.JEQ, JumpOp.JNE)
    if isinstance(pointer, Pointer) and is_null_asked and isinstance(other, int) and other == 0:
        return _of_null(domain, i.op, pointer)
    raise UnmodelledError(f"{a} {i.op.name} {b} in {i.width} bits")


def _of_null(domain: Domain, op: JumpOp, pointer: Pointer) -> Asked:
    is_null_if_true = op is JumpOp.JEQ
    condition = pointer.null if is_null_if_true else domain.no(pointer.null)
    if isinstance(pointer.null, bool):
        return Asked(condition)
    return Asked(condition, pointer.region, is_null_if_true)


def _of_offsets(domain: Domain, op: JumpOp, a: Pointer, b: Pointer) -> Truth:
    found = _COMPARED.get(op)
    if a.region != b.region or found is None or found[0] not in _OF_OFFSETS:
        raise UnmodelledError(f"{a} {op.name} {b}")
    cmp, is_swapped, is_contrary = found
    left, right = (b, a) if is_swapped else (a, b)
    condition = domain.compare(_OF_OFFSETS[cmp], left.offset, right.offset, 64)
    return domain.no(condition) if is_contrary else condition
