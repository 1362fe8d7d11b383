# SPDX-License-Identifier: Apache-2.0
"""Devices under default deny for want of an endpoint: those that patterns of `--deny-devices` name.

Such a device has a pod's hooks and no endpoint, and so passes nothing in either direction. A load that
knows its pod makes it an endpoint: its hooks stay.
"""

import re
import socket
from collections.abc import Collection, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from policyc.runtime.devices import (
    own_device,
    reassembly,
    tunnel,
)
from policyc.runtime.errors import InputError
from policyc.runtime.state import Attachment

Patterns = tuple[str, ...]

_PATTERN = re.compile(r"[^\s/:]+")  # a device has no other character in its name
_LOOPBACK = 1
"""Its ifindex in each network namespace."""
_OURS = frozenset(
    {tunnel.NAME, reassembly.NAME, own_device.SERVICE_ROUTE, own_device.SERVICE_ROUTE_FAR}
)


def read_patterns(given: Sequence[str]) -> Patterns | None:
    """Of the option --deny-devices; None where it is not given. One empty pattern: no device is denied.

    `InputError` for what can be no device's name.
    """
    if not given:
        return None
    if tuple(given) == ("",):
        return ()
    for each in given:
        if not _PATTERN.fullmatch(each):
            raise InputError(
                f"--deny-devices: expected a pattern of device names as veth*, found {each!r}",
                "give '' alone: it ends the default deny of devices",
            )
    return tuple(dict.fromkeys(given))


def matches(name: str, patterns: Patterns) -> bool:
    """Whether a device of that name is denied without an endpoint."""
    return any(fnmatchcase(name, each) for each in patterns)


def is_denied(at: Attachment, patterns: Patterns) -> bool:
    """The same of one that was denied before, also under another name by now."""
    return matches(at.interface, patterns) or matches(name_of(at.ifindex), patterns)


def found(patterns: Patterns, spared: Collection[int]) -> dict[str, int]:
    """Name -> ifindex of the devices that match, without `spared`, loopback and our own."""
    if not patterns:
        return {}
    return {
        name: ifindex
        for ifindex, name in socket.if_nameindex()
        if ifindex not in spared and is_to_be_denied(name, ifindex, patterns)
    }


def is_to_be_denied(name: str, ifindex: int, patterns: Patterns) -> bool:
    """Whether the device is denied, if it is no endpoint's and no uplink."""
    return ifindex != _LOOPBACK and name not in _OURS and matches(name, patterns)


def name_of(ifindex: int) -> str:
    """The device's present name; empty where it is gone."""
    with suppress(OSError):
        return socket.if_indextoname(ifindex)
    return ""
