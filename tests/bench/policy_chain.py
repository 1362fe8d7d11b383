# SPDX-License-Identifier: Apache-2.0
"""Linear rule code in assembly: rules in order, and the first matching rule allows.

For each rule: the network by mask and comparison, or the set of a selector by a lookup in a trie; then
the port range. Long chains are cut into programs that tail call the next. Instructions are those of
linux/bpf.h.
"""

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from policy_cases import TCP, Rule

from policyc.runtime.kernel import bpf_syscall

MOV64_REG, MOV64_IMM, ADD64_IMM, AND32_IMM = 0xBF, 0xB7, 0x07, 0x54
LOAD32, STORE32, STORE32_IMM, LOAD_IMM64 = 0x61, 0x63, 0x62, 0x18
JEQ64_IMM, JNE32_IMM, JLT32_IMM, JGT32_IMM, CALL, EXIT = 0x15, 0x56, 0xA6, 0x26, 0x85, 0x95
MAP_FD, LOOKUP, SCHED_CLS = 1, 1, 3
ALLOW, DENY = 1, 2
TAIL_CALL = 12
RULES_OF_PIECE = 1000
NO_RULES_SLOT = 32
KEY_BITS = 64


@dataclass
class Assembler:
    """Instructions in a row, eight bytes each."""

    code: list[bytes] = field(default_factory=list)

    def add(self, op: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> None:
        """One instruction; `imm` as 32 bits, signed or not."""
        self.code.append(struct.pack("<BBhI", op, src << 4 | dst, off, imm & 0xFFFFFFFF))

    def map_pointer(self, register: int, fd: int) -> None:
        """The address of a map, which takes two instructions."""
        self.add(LOAD_IMM64, register, MAP_FD, imm=fd)
        self.add(0)

    def finish(self, verdict: int) -> None:
        """Return a verdict."""
        self.add(MOV64_IMM, 0, imm=verdict)
        self.add(EXIT)


def pieces(rules: Sequence[Rule], flow_map: int, sets_map: int, chains: int) -> list[bytes]:
    """The programs of a chain, for the slots from 0 on."""
    cut = [rules[at : at + RULES_OF_PIECE] for at in range(0, len(rules), RULES_OF_PIECE)] or [()]
    last = len(cut) - 1
    return [
        chain(part, flow_map, sets_map, (chains, at + 1) if at < last else None)
        for at, part in enumerate(cut)
    ]


def chain(
    rules: Sequence[Rule], flow_map: int, sets_map: int, then: tuple[int, int] | None = None
) -> bytes:
    """One program; `then` is the program array and the slot that go on where no rule matched.

    r6 is the flow, which each rule reads anew: the verifier would follow a value in all the variants
    that comparisons of earlier rules make of it.
    """
    out = Assembler()
    out.add(MOV64_REG, 9, 1)
    out.add(STORE32_IMM, 10, off=-4)
    out.map_pointer(1, flow_map)
    out.add(MOV64_REG, 2, 10)
    out.add(ADD64_IMM, 2, imm=-4)
    out.add(CALL, imm=LOOKUP)
    out.add(JEQ64_IMM, 0, off=2)
    out.add(MOV64_REG, 6, 0)
    for rule in rules:
        out.code += _rule(rule, sets_map).code
    if then is not None:
        out.add(MOV64_REG, 1, 9)
        out.map_pointer(2, then[0])
        out.add(MOV64_IMM, 3, imm=then[1])
        out.add(CALL, imm=TAIL_CALL)
    out.finish(DENY)
    return b"".join(_with_null_check(out.code))


def _with_null_check(code: list[bytes]) -> list[bytes]:
    """The jump of a missing flow goes to a return of its own."""
    head, rest = code[:9], code[9:]
    landing = Assembler()
    landing.add(0x05, off=2)  # over the two instructions that follow
    landing.finish(0)
    return [*head, *landing.code, *rest]


def _rule(rule: Rule, sets_map: int) -> Assembler:
    body = Assembler()
    low, high = (TCP << 16 | port for port in (rule.low, rule.high))
    ports = [(JLT32_IMM, low), (JGT32_IMM, high)]
    if rule.network is not None:
        body.add(LOAD32, 1, 6, off=0)
        body.add(AND32_IMM, 1, imm=int(rule.network.netmask))
        body.add(JNE32_IMM, 1, off=5, imm=int(rule.network.network_address))
    elif rule.app is not None:
        body.add(STORE32_IMM, 10, off=-16, imm=KEY_BITS)
        body.add(STORE32_IMM, 10, off=-12, imm=rule.app)
        body.add(LOAD32, 1, 6, off=8)
        body.add(STORE32, 10, 1, off=-8)
        body.map_pointer(1, sets_map)
        body.add(MOV64_REG, 2, 10)
        body.add(ADD64_IMM, 2, imm=-16)
        body.add(CALL, imm=LOOKUP)
        body.add(JEQ64_IMM, 0, off=5)
    body.add(LOAD32, 1, 6, off=4)
    for left, (op, bound) in zip((3, 2), ports, strict=True):
        body.add(op, 1, off=left, imm=bound)
    body.finish(ALLOW)
    return body


def load(code: bytes) -> bpf_syscall.Fd:
    """Load the program; OSError with the end of the verifier's words."""
    program, licence = (
        ctypes.create_string_buffer(code, len(code)),
        ctypes.create_string_buffer(b"GPL"),
    )
    log = ctypes.create_string_buffer(1 << 20)
    addresses = [ctypes.addressof(buffer) for buffer in (program, licence, log)]
    attr = struct.pack(
        "=IIQQIIQ", SCHED_CLS, len(code) // 8, addresses[0], addresses[1], 0, 0, 0
    ) + bytes(80)
    try:
        return bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr))
    except OSError as refused:
        attr = struct.pack(
            "=IIQQIIQ",
            SCHED_CLS,
            len(code) // 8,
            addresses[0],
            addresses[1],
            1,
            len(log),
            addresses[2],
        ) + bytes(80)
        try:
            bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr)
        except OSError:
            words = log.value.decode("utf-8", "replace").strip().splitlines()[-1:]
            raise OSError(refused.errno, f"{refused.strerror}: {' '.join(words)}") from refused
        raise
