# SPDX-License-Identifier: Apache-2.0
"""A BPF ring buffer, read by libbpf, which knows the required order of reads."""

import ctypes
import errno
import os
from types import TracebackType

from policyc.runtime.errors import HostError
from policyc.runtime.kernel.libbpf import (
    SAMPLE,
    library,
)


class RingBuffer:
    """The reader of one ring buffer. A second reader would take records: each is read once."""

    def __init__(self, fd: int) -> None:
        self._lib = library()
        self._call = SAMPLE(self._take)  # kept while libbpf may call it
        self._records: list[bytes] = []
        self._most = 0
        self._ring = self._lib.ring_buffer__new(fd, self._call, None, None)
        if not self._ring:
            raise HostError(f"the events cannot be read: {os.strerror(ctypes.get_errno())}")

    def poll(self, timeout_ms: int, most: int) -> list[bytes]:
        """At most `most` records; waits `timeout_ms` for the first. The rest stays for the next call."""
        self._records, self._most = [], most
        result = self._lib.ring_buffer__poll(self._ring, timeout_ms)
        if result < 0 and result not in (-errno.EINTR, -errno.ENOBUFS):
            raise HostError(f"the events cannot be read: {os.strerror(-result)}")
        return self._records

    def _take(self, _context: int, record: int, size: int) -> int:
        self._records.append(ctypes.string_at(record, size))
        return -errno.ENOBUFS if len(self._records) >= self._most else 0

    def __enter__(self) -> "RingBuffer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lib.ring_buffer__free(self._ring)
