# SPDX-License-Identifier: Apache-2.0
"""Time that passes in the datapath's tables, so that no test waits for it."""

import struct
from collections.abc import Mapping
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.kernel.pins import Pins

TABLES = {
    "pc_masq_ends": "pc_masq_end",
    "pc_ct4": "pc_ct",
    "pc_ct4_new": "pc_ct",
    "pc_ct6": "pc_ct",
    "pc_ct6_new": "pc_ct",
}
"""The values of these expire."""


def let_pass(pins: Pins, objects: Path, seconds: float, tables: Mapping[str, str] = TABLES) -> None:
    """Every entry is so much older; what no packet has touched since then is over sooner."""
    layouts = Btf.of_object(objects / "hooks.bpf.o")
    with bpf_syscall.obj_get(pins.map("pc_clock")) as fd:
        (rate,) = struct.unpack("=Q", bpf_syscall.map_lookup(fd, bytes(4), 8) or b"")
    for table, struct_name in tables.items():
        at = layouts.struct(struct_name).fields["expires"].offset
        with bpf_syscall.obj_get(pins.map(table)) as fd:
            _age(fd, at, int(seconds * rate))


def _age(fd: int, at: int, ticks: int) -> None:
    info = bpf_syscall.map_info(fd)
    for key in list(bpf_syscall.map_keys(fd, info.key_size)):
        value = bytearray(bpf_syscall.map_lookup(fd, key, info.value_size) or b"")
        if value:
            (expires,) = struct.unpack_from("=Q", value, at)
            struct.pack_into("=Q", value, at, max(1, expires - ticks))
            bpf_syscall.map_update(fd, key, bytes(value))
