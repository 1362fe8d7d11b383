# SPDX-License-Identifier: Apache-2.0
"""Probes what this kernel supports. A probe runs after a failure, to explain an EINVAL."""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall, libbpf

_PROG_QUERY = 16
_LOOPBACK = 1  # ifindex of lo, in every network namespace


@dataclass(frozen=True)
class Feature:
    """A feature that is newer than the oldest supported kernel."""

    name: str
    minimum_kernel: str
    probe: Callable[[], bool]

    def is_there(self) -> bool:
        """Whether this kernel has it; probed once."""
        return self.probe()

    def require(self) -> None:
        """Raise `HostError` if it is missing."""
        if not self.is_there():
            raise HostError(
                f"{self.name} needs Linux {self.minimum_kernel}, this is {os.uname().release}"
            )


@cache
def _has_tcx() -> bool:
    query = struct.pack(
        "=IIIIQIIQQ", _LOOPBACK, bpf_syscall.ATTACH_TCX_INGRESS, 0, 0, 0, 0, 0, 0, 0
    )
    try:
        bpf_syscall.bpf(_PROG_QUERY, bytearray(query + bytes(16)))
    except OSError:
        return False
    return True


TCX = Feature("attaching by tcx links", "6.6", _has_tcx)
NETFILTER = Feature("a BPF program in netfilter", "6.4", partial(libbpf.takes, libbpf.NETFILTER))
MAP_ITERATORS = Feature(
    "a BPF program for each element of a map", "5.9", partial(libbpf.takes, libbpf.MAP_ITERATOR)
)
"""Some kernels are locked down more than others, and refuse such programs (EPERM)."""
