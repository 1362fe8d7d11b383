# SPDX-License-Identifier: Apache-2.0
"""Work in a forked child, which may enter a network namespace without moving its parent.

A child dies with its parent, ignores the terminal's interrupt (the parent sees it and kills the
child), and hands back a result or an exception through a pipe.
"""

import contextlib
import ctypes
import math
import os
import pickle
import select
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000
_PR_SET_PDEATHSIG = 1
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGALRM}
# An interrupt just before a wait is seen only after that wait, so no wait is longer (seconds).
_TURN = 0.5
_LENGTH = struct.Struct("!Q")


class LabError(Exception):
    """The lab could not do the work: no root, a missing kernel feature, or a lost child."""


def libc() -> ctypes.CDLL:
    """The C library, for what Python 3.11 does not wrap: setns, unshare, mount, prctl."""
    return ctypes.CDLL(None, use_errno=True)


def check(result: int, doing: str) -> None:
    """Raise the C library's error, naming what was being done, if a call returned one."""
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{doing}: {os.strerror(error)}")


def enter(namespace: int) -> None:
    """Move the calling thread into the network namespace behind this file descriptor."""
    check(libc().setns(namespace, _CLONE_NEWNET), "setns")


def unshare_network() -> None:
    """Move the calling thread into a new network namespace."""
    check(libc().unshare(_CLONE_NEWNET), "unshare")


def call(
    work: Callable[[], T], *, namespace: Path | None = None, timeout: float | None = None
) -> T:
    """Run `work` in a child, inside `namespace` when given; its result, or its exception.

    Result and exception must survive pickle; an exception that does not comes back as a LabError
    with its traceback as text. Only the network namespace differs: mounts, a bpffs among them,
    are the caller's. After `timeout` seconds the child is killed and LabError raised.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    reading, writing = os.pipe()
    # An interrupt between the fork and the `try` would leave a child that no code ends.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _be_child(parent, writing, mask, work, namespace)
    os.close(writing)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        answer = _receive(reading, timeout)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        os.close(reading)
        _, status = os.waitpid(pid, 0)
    if answer is None:
        raise LabError(f"a child ended with status {status} before it had a result")
    succeeded, value = pickle.loads(answer)
    if succeeded:
        result: T = value
        return result
    raise value


def _be_child(
    parent: int,
    writing: int,
    mask: set[int | signal.Signals],
    work: Callable[[], object],
    namespace: Path | None,
) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above took effect
            os._exit(1)
        answer = _answer(work, namespace)
        with open(writing, "wb") as pipe:
            pipe.write(_LENGTH.pack(len(answer)) + answer)
        sys.stdout.flush()
        sys.stderr.flush()
        status = 0
    finally:
        os._exit(status)  # the child must not run the parent's exit handlers, or pytest's


def _answer(work: Callable[[], object], namespace: Path | None) -> bytes:
    try:
        if namespace is not None:
            with namespace.open("rb") as file:
                enter(file.fileno())
        return pickle.dumps((True, work()))
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        with contextlib.suppress(Exception):
            error.add_note("in a child of the lab:\n" + text)
            answer = pickle.dumps((False, error))
            pickle.loads(answer)  # some exceptions pickle, and then fail to unpickle
            return answer
        return pickle.dumps((False, LabError(text)))


def _receive(reading: int, timeout: float | None) -> bytes | None:
    """The child's answer; None when it ended without one."""
    deadline = None if timeout is None else time.monotonic() + timeout
    header = _read_exactly(reading, _LENGTH.size, deadline)
    if header is None:
        return None
    return _read_exactly(reading, _LENGTH.unpack(header)[0], deadline)


def _read_exactly(reading: int, n_bytes: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    while len(data) < n_bytes:
        left = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reading], [], [], min(left, _TURN))[0]:
            if left > _TURN:
                continue
            raise LabError("a child process timed out")
        chunk = os.read(reading, min(n_bytes - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)
