# SPDX-License-Identifier: Apache-2.0
"""The one word that names the active generation: slot in the low half, epoch in the high half.

Hooks read it once per packet, and it is stored once, so no packet sees a partial change.
"""

import ctypes
import mmap
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall

_MEMBARRIER = {"x86_64": 324, "aarch64": 283, "riscv64": 283, "s390x": 356, "ppc64le": 365}
_MEMBARRIER_GLOBAL = 1
_GRACE_SECONDS = 0.1

_SLOT, _SERVICES, _BUFFER = 0xFFFF, 0x10000, 0x20000
_MASQUERADE, _HOSTS, _OWN_NODE = 0x40000, 0x100000, 0x200000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Word:
    """The slot of pc_policy, and the epoch that connections are stamped with; epoch 0 is "none yet".

    `services` says whether there are Services, or were, and which buffer of their tables is active:
    PC_STATE_SERVICES and PC_STATE_HALF of datapath/generation.h. `masquerades` is PC_STATE_MASQ.
    `has_host` is PC_STATE_HOSTS: the node itself is under host policy. `binds_own_node` is
    PC_STATE_OWN_NODE: policies deny some of the node's packets to its pods. The last three belong to the
    generation, so the next generation must set them again.
    """

    slot: int
    epoch: int
    services: int = 0
    masquerades: bool = False
    has_host: bool = False
    binds_own_node: bool = False

    @property
    def with_services(self) -> "Word":
        """The word with the other buffer of the tables of Services; everything else stays."""
        other = 0 if self.services & _BUFFER else _BUFFER
        return replace(self, services=_SERVICES | other)

    @property
    def buffer(self) -> int:
        """The active buffer of the tables of Services."""
        return 1 if self.services & _BUFFER else 0

    @property
    def next(self) -> "Word":
        """The word that a load switches to. The first load gets the slot that the zeroed map names."""
        if self.epoch == 0:
            return replace(self, slot=0, epoch=1)
        return replace(self, slot=1 - self.slot, epoch=self.epoch % 0xFFFFFFFF + 1)


def read(pin: Path) -> Word:
    """The active word; the zeroed one if the map does not exist."""
    if not pin.exists():
        return Word(0, 0)
    with bpf_syscall.obj_get(pin) as fd:
        raw = bpf_syscall.map_lookup(fd, bytes(4), 8) or bytes(8)
    number = int.from_bytes(raw, "little")
    services = number & (_SERVICES | _BUFFER)
    flags = (bool(number & bit) for bit in (_MASQUERADE, _HOSTS, _OWN_NODE))
    return Word(number & _SLOT, number >> 32, services, *flags)


def store(pin: Path, word: Word) -> None:
    """Activate the word by one aligned store of eight bytes."""
    with bpf_syscall.obj_get(pin) as fd, mmap.mmap(fd, mmap.PAGESIZE) as page:
        cell = ctypes.c_uint64.from_buffer(page)
        flags = _MASQUERADE * word.masquerades | _HOSTS * word.has_host
        flags |= _OWN_NODE * word.binds_own_node
        cell.value = word.epoch << 32 | word.services | flags | word.slot
        del cell  # the page cannot be unmapped while a pointer to it exists


def wait_for_readers() -> None:
    """Return when no packet that read an older word is still being processed.

    The global membarrier waits for an RCU grace period, under which BPF programs run. Kernels with
    nohz_full refuse it; there this waits a tenth of a second, which is longer than any packet takes.
    """
    number = _MEMBARRIER.get(platform.machine())
    if number is None or _libc.syscall(number, _MEMBARRIER_GLOBAL, 0, 0) != 0:
        time.sleep(_GRACE_SECONDS)
