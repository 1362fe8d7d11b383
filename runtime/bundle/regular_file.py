# SPDX-License-Identifier: Apache-2.0
"""Reads files from a folder that others may write: regular files of bounded size, without blocking.

A FIFO or a device in place of a file could block the reader, or never end.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_PIECE = 1 << 20


def pieces(path: Path, most: int) -> Iterator[bytes]:
    """The file's bytes, at most `most`.

    Raises `OSError` for any other file; its `strerror` gives the reason.
    """
    _require_regular(path.stat(), most)  # opening a device may have side effects
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _require_regular(os.fstat(fd), most)
        n = 0
        while piece := os.read(fd, _PIECE):
            n += len(piece)
            if n > most:  # it grows, or the kernel generates it on read
                raise _too_large(most)
            yield piece
    finally:
        os.close(fd)


def read(path: Path, most: int) -> bytes:
    """Like `pieces`, as one value."""
    return b"".join(pieces(path, most))


def _require_regular(about: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if about.st_size > most:
        raise _too_large(most)


def _too_large(most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is larger than {most} bytes")
