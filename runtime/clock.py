# SPDX-License-Identifier: Apache-2.0
"""The datapath's clock: the kernel's ticks, which cost a packet nothing to read.

How many there are in a second the kernel was built with and does not say. It is measured once, by
reading them a tenth of a second apart, and left in the map `pc_clock`.
"""

import struct
import time
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime.errors import HostError

RATES = (100, 200, 250, 300, 500, 1000, 1024)
"""What kernels are built with (CONFIG_HZ)."""

_SOCKET_FILTER = 1
_JIFFIES64 = 118
_PROGRAM = struct.pack("<BBhiBBhi", 0x85, 0, 0, _JIFFIES64, 0x95, 0, 0, 0)  # return jiffies
_FRAME = bytes(14)
_SECONDS = 0.1
_SHARP_NS = 300_000
_ATTEMPTS = 50


def set_rate(pin: Path) -> None:
    """Write the ticks of a second into the map, where they are not there yet."""
    with bpf_syscall.obj_get(pin) as fd:
        if not any(bpf_syscall.map_lookup(fd, bytes(4), 8) or b""):
            bpf_syscall.map_update(fd, bytes(4), struct.pack("=Q", ticks_per_second()))


def ticks_per_second() -> int:
    """The kernel's CONFIG_HZ, by measuring. HostError if the clocks of the machine disagree."""
    with _program() as program:
        for _ in range(_ATTEMPTS):
            first_ns, first = _now(program)
            time.sleep(_SECONDS)
            last_ns, last = _now(program)
            rate = ((last - first) & 0xFFFFFFFF) * 1e9 / (last_ns - first_ns)
            nearest = min(RATES, key=lambda known: abs(known - rate))
            # One tick is 10 % at the slowest rate; a rate in between is no measurement.
            if abs(nearest - rate) <= max(10.5, 0.01 * nearest):
                return nearest
    raise HostError(f"the kernel's ticks make no sense: about {rate:.0f} in a second")


def ticks() -> int:
    """The low 32 bits of the kernel's tick of now."""
    with _program() as program:
        return _now(program)[1]


def _program() -> bpf_syscall.Fd:
    code, licence = bpf_syscall.buffer(_PROGRAM), bpf_syscall.buffer(b"GPL\0")
    attr = struct.pack(
        "=IIQQIIQII",
        *(_SOCKET_FILTER, len(_PROGRAM) // 8, bpf_syscall.address(code)),
        *(bpf_syscall.address(licence), 0, 0, 0, 0, 0),
    )
    return bpf_syscall.Fd(bpf_syscall.bpf(bpf_syscall.PROG_LOAD, attr))


def _now(program: int) -> tuple[int, int]:
    """(nanoseconds, ticks) of one moment: nothing came between asking the one and the other."""
    for _ in range(_ATTEMPTS):
        before = time.monotonic_ns()
        ticks = bpf_syscall.prog_test_run(program, _FRAME) & 0xFFFFFFFF
        after = time.monotonic_ns()
        if after - before < _SHARP_NS:
            return (before + after) // 2, ticks
    raise HostError("the machine is too busy to measure its clock")
