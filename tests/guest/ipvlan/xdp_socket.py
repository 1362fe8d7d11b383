# SPDX-License-Identifier: Apache-2.0
"""A frame by AF_XDP in copy mode, which needs no program at the device."""

import ctypes
import errno
import mmap
import os
import socket
import struct
import time

from tests.guest.ipvlan.pods import start
from tests.guest.ipvlan.traffic import Send, framed

_AF_XDP, _SOL_XDP = 44, 283
_MMAP_OFFSETS, _UMEM_REG = 1, 4
_TX_RING, _FILL_RING, _COMPLETION_RING = 3, 5, 6
_COPY = 1 << 1  # XDP_COPY
_TX_PAGES = 0x80000000  # XDP_PGOFF_TX_RING
_CHUNK, _CHUNKS = 4096, 4
_PATIENCE = 10.0  # seconds
_libc = ctypes.CDLL(None, use_errno=True)


def by_xdp(pod: str, macs: tuple[str, str], source: str, to: str) -> Send:
    """A forged datagram in a frame from one MAC address to another."""

    def send(port: int) -> str:
        data = framed(macs, source, to, port)
        return start(pod, lambda: send_by_xdp(f"e{pod}", data))()

    return send


def send_by_xdp(device: str, data: bytes) -> str:
    """Send one frame by a device of this network namespace."""
    with socket.socket(_AF_XDP, socket.SOCK_RAW, 0) as at:
        umem = mmap.mmap(-1, _CHUNKS * _CHUNK)
        umem[: len(data)] = data
        start_of_umem = ctypes.addressof(ctypes.c_char.from_buffer(umem))
        about = struct.pack("=QQIIII", start_of_umem, _CHUNKS * _CHUNK, _CHUNK, 0, 0, 0)
        at.setsockopt(_SOL_XDP, _UMEM_REG, about)
        for ring in (_TX_RING, _FILL_RING, _COMPLETION_RING):
            at.setsockopt(_SOL_XDP, ring, struct.pack("=I", _CHUNKS))
        offsets = struct.unpack("=16Q", at.getsockopt(_SOL_XDP, _MMAP_OFFSETS, 128))
        producer, _, descriptors, _ = offsets[4:8]  # of the ring for sending
        with mmap.mmap(at.fileno(), 4096, offset=_TX_PAGES) as pages:
            _bind(at.fileno(), device)
            struct.pack_into("=QII", pages, descriptors, 0, len(data), 0)
            struct.pack_into("=I", pages, producer, 1)
            if _libc.sendto(at.fileno(), None, 0, socket.MSG_DONTWAIT, None, 0):
                failed = ctypes.get_errno()
                if failed != errno.EBUSY:
                    raise OSError(failed, os.strerror(failed))
                return "EBUSY"  # what NET_XMIT_DROP becomes here: a hook dropped the frame
            time.sleep(0.3)
    return "sent"


def _bind(fd: int, device: str) -> None:
    """The kernel frees the device's queue some time after an earlier socket was closed."""
    where = struct.pack("=HHIII", _AF_XDP, _COPY, socket.if_nametoindex(device), 0, 0)
    end = time.monotonic() + _PATIENCE
    while _libc.bind(fd, where, len(where)):
        if ctypes.get_errno() != errno.EBUSY or time.monotonic() > end:
            raise OSError(ctypes.get_errno(), "bind")
        time.sleep(0.05)
