# SPDX-License-Identifier: Apache-2.0
"""A connection to rtnetlink by pyroute2, which is imported only on demand."""

import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from policyc.runtime.errors import HostError

_READINGS = 16
"""How often a list that keeps changing is read before the function gives up."""
_DUMP_INTERRUPTED = 0x10
"""NLM_F_DUMP_INTR: the list changed during the dump, and may lack entries that existed all the time."""


def is_usable() -> bool:
    """Whether the Python package that speaks rtnetlink is installed."""
    return find_spec("pyroute2") is not None


@contextmanager
def connection(purpose: str, otherwise: str = "") -> Iterator[Any]:
    """A netlink socket; a refusal of the kernel is an `OSError`, as with every system call.

    `purpose` is what needs it, for the error if the package is missing; `otherwise` names an
    alternative.
    """
    with _netlink(purpose, otherwise)() as netlink:
        try:
            yield netlink
        except refused() as error:
            raise OSError(code_of(error), os.strerror(code_of(error))) from error


@cache
def _netlink(purpose: str, otherwise: str) -> Any:
    try:
        from pyroute2 import IPRoute
    except ImportError as error:
        raise HostError(
            f"{purpose} needs the Python package pyroute2",
            f"pip install pyroute2{otherwise}",
        ) from error
    return IPRoute


@contextmanager
def nftables(purpose: str) -> Iterator[Any]:
    """A netlink socket to nftables, like `connection`."""
    _netlink(purpose, "")
    from pyroute2.nftables.main import NFTables

    with NFTables(nfgen_family=socket.AF_UNSPEC) as netlink:  # chains of every family
        try:
            yield netlink
        except refused() as error:
            raise OSError(code_of(error), os.strerror(code_of(error))) from error


def dump(read: Callable[[], Iterable[Any]]) -> list[Any]:
    """All of a list that the kernel sends in parts, from one point in time.

    The list is read again if it changed meanwhile. `OSError` (EAGAIN) if it never stops changing.
    """
    for _ in range(_READINGS):
        try:
            found = list(read())
        except _interrupted():
            continue
        if not any(int(each["header"]["flags"]) & _DUMP_INTERRUPTED for each in found):
            return found
    raise OSError(errno.EAGAIN, "the list keeps changing")


@cache
def _interrupted() -> type[Exception]:
    from pyroute2.netlink.exceptions import NetlinkDumpInterrupted

    kind: type[Exception] = NetlinkDumpInterrupted
    return kind


def find_link(netlink: Any, **which: str | int) -> Any | None:
    """The kernel's information about a device, by `ifname` or `index`; None if there is none."""
    try:
        (link,) = netlink.link("get", **which)
    except refused() as error:
        if code_of(error) == errno.ENODEV:
            return None
        raise
    return link


@cache
def refused() -> type[Exception]:
    """The exception that pyroute2 raises if the kernel refuses."""
    from pyroute2.netlink.exceptions import NetlinkError

    kind: type[Exception] = NetlinkError
    return kind


def code_of(error: Exception) -> int:
    """The kernel's errno."""
    return int(getattr(error, "code", 0))
