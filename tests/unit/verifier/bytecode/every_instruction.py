# SPDX-License-Identifier: Apache-2.0
"""One instruction of every kind."""

from policyc.verifier.bytecode.instructions import (
    Alu,
    AluOp,
    Atomic,
    AtomicOp,
    Call,
    CallKind,
    Exit,
    Imm,
    Instruction,
    Jump,
    JumpIf,
    JumpOp,
    Load,
    LoadWide,
    Negate,
    Pseudo,
    Reg,
    Store,
    Swap,
)

EVERY: list[Instruction] = [
    *(Alu(op, width, 3, src) for op in AluOp for width in (32, 64) for src in (Reg(10), Imm(7))),
    *(Negate(width, 9) for width in (32, 64)),
    *(Swap(bits, to_big, 0) for bits in (16, 32, 64) for to_big in (False, True)),
    *(LoadWide(1, kind, 0xFFFFFFFF, 0x80000000) for kind in Pseudo),
    *(Load(size, 2, 10, -8) for size in (1, 2, 4, 8)),
    *(Store(size, 1, 32767, src) for size in (1, 2, 4, 8) for src in (Reg(4), Imm(-1))),
    *(Atomic(op, size, 5, -32768, 6, fetch=True) for op in AtomicOp for size in (4, 8)),
    *(Atomic(op, size, 5, 16, 6, fetch=False) for op in list(AtomicOp)[:4] for size in (4, 8)),
    Jump(-1),
    *(
        JumpIf(op, width, 7, src, 12)
        for op in JumpOp
        for width in (32, 64)
        for src in (Reg(8), Imm(-(1 << 31)))
    ),
    Call(CallKind.HELPER, 1),
    Call(CallKind.LOCAL, -5),
    Call(CallKind.KFUNC, 1234, 2),
    Exit(),
]
