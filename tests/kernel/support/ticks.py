# SPDX-License-Identifier: Apache-2.0
"""The kernel's tick, as programs read it."""

import ctypes
import struct

from policyc.runtime.kernel import bpf_syscall

_SOCKET_FILTER = 1
_JIFFIES64 = 118
_PROGRAM = struct.pack("<BBhiBBhi", 0x85, 0, 0, _JIFFIES64, 0x95, 0, 0, 0)  # return jiffies
_FRAME = bytes(14)


def ticks() -> int:
    """The low 32 bits of the tick of now."""
    code = ctypes.create_string_buffer(_PROGRAM, len(_PROGRAM))
    licence = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack(
        "=IIQQIIQII",
        *(_SOCKET_FILTER, len(_PROGRAM) // 8, ctypes.addressof(code)),
        *(ctypes.addressof(licence), 0, 0, 0, 0, 0),
    )
    with bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr)) as program:
        return bpf_syscall.prog_test_run(program, _FRAME) & 0xFFFFFFFF


def since(tick: int) -> int:
    """Ticks from that one until now."""
    return ticks() - tick & 0xFFFFFFFF
