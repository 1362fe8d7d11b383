# SPDX-License-Identifier: Apache-2.0
"""Maps with one value per CPU."""

import os
import struct
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall


def per_cpu_sums(pin: Path) -> list[tuple[int, ...]]:
    """The 64-bit words of each entry, summed over the CPUs."""
    with bpf_syscall.obj_get(pin) as fd:
        info = bpf_syscall.map_info(fd)
        words, size = info.value_size // 8, info.value_size * possible_cpus()
        found = []
        for index in range(info.max_entries):
            raw = bpf_syscall.map_lookup(fd, struct.pack("=I", index), size) or bytes(size)
            values = struct.unpack(f"={size // 8}Q", raw)
            found.append(tuple(sum(values[at::words]) for at in range(words)))
        return found


def possible_cpus() -> int:
    """How many values a per-CPU map gives: one per possible CPU."""
    try:
        text = Path("/sys/devices/system/cpu/possible").read_text().strip()
    except OSError:
        return os.cpu_count() or 1
    return int(text.replace(",", "-").rsplit("-", 1)[-1]) + 1
