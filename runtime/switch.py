# SPDX-License-Identifier: Apache-2.0
"""The one word that says which generation is in force: low half slot, high half epoch.

Hooks read it once a packet, and it is stored once, so no packet sees half of a change.
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

_SLOT, _SERVICES, _HALF = 0xFFFF, 0x10000, 0x20000
_MASQUERADE, _HOSTS, _OWN_NODE = 0x40000, 0x100000, 0x200000

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Word:
    """Slot of pc_policy, and the epoch that connections are stamped with; epoch 0 is "none yet".

    `services` says whether there are Services, or were, and which half of their tables is in force:
    PC_STATE_SERVICES and PC_STATE_HALF of datapath/generation.h. `masquerades` is PC_STATE_MASQ, and
    `has_host` PC_STATE_HOSTS, whether policies guard the node itself; `binds_own_node` is
    PC_STATE_OWN_NODE, whether they deny some of what it sends to its pods. All three are the
    generation's, so the next one has to say them again.
    """

    slot: int
    epoch: int
    services: int = 0
    masquerades: bool = False
    has_host: bool = False
    binds_own_node: bool = False

    @property
    def with_services(self) -> "Word":
        """The other half of the tables of Services; everything else stays."""
        half = 0 if self.services & _HALF else _HALF
        return replace(self, services=_SERVICES | half)

    @property
    def half(self) -> int:
        """The half of the tables of Services that is in force."""
        return 1 if self.services & _HALF else 0

    @property
    def next(self) -> "Word":
        """The word that a load switches to. The first goes where the zeroed map points already."""
        if self.epoch == 0:
            return replace(self, slot=0, epoch=1)
        return replace(self, slot=1 - self.slot, epoch=self.epoch % 0xFFFFFFFF + 1)


def read(pin: Path) -> Word:
    """The word in force; of a map that is not there, the zeroed one."""
    if not pin.exists():
        return Word(0, 0)
    with bpf_syscall.obj_get(pin) as fd:
        raw = bpf_syscall.map_lookup(fd, bytes(4), 8) or bytes(8)
    number = int.from_bytes(raw, "little")
    services = number & (_SERVICES | _HALF)
    flags = (bool(number & bit) for bit in (_MASQUERADE, _HOSTS, _OWN_NODE))
    return Word(number & _SLOT, number >> 32, services, *flags)


def store(pin: Path, word: Word) -> None:
    """Put the word in force by one aligned store of eight bytes."""
    with bpf_syscall.obj_get(pin) as fd, mmap.mmap(fd, mmap.PAGESIZE) as page:
        cell = ctypes.c_uint64.from_buffer(page)
        flags = _MASQUERADE * word.masquerades | _HOSTS * word.has_host
        flags |= _OWN_NODE * word.binds_own_node
        cell.value = word.epoch << 32 | word.services | flags | word.slot
        del cell  # the page cannot be unmapped while it is pointed to


def wait_for_readers() -> None:
    """Return when no packet is under way any more that read an older word.

    The global membarrier waits for a grace period of RCU, under which BPF programs run; kernels
    with nohz_full refuse it, and there a tenth of a second is more than any packet takes.
    """
    number = _MEMBARRIER.get(platform.machine())
    if number is None or _libc.syscall(number, _MEMBARRIER_GLOBAL, 0, 0) != 0:
        time.sleep(_GRACE_SECONDS)
