# SPDX-License-Identifier: Apache-2.0
"""Devices without an endpoint that are denied by default, as the patterns of `--deny-devices` name them.

Such a device has a pod's hooks and no endpoint, so no packet passes in either direction. A load that
knows its pod makes the device an endpoint, and its hooks stay.
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

_PATTERN = re.compile(r"[^\s/:]+")  # other characters cannot be in a device's name
_LOOPBACK = 1
"""The ifindex of lo in each network namespace."""
_OURS = frozenset(
    {tunnel.NAME, reassembly.NAME, own_device.SERVICE_ROUTE, own_device.SERVICE_ROUTE_FAR}
)


def read_patterns(given: Sequence[str]) -> Patterns | None:
    """Read the option --deny-devices; None if it is not given. One empty pattern: no device is denied.

    Raises `InputError` for a pattern that no device's name can match.
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
    """Whether a device that was denied before still is, also if it was renamed."""
    return matches(at.interface, patterns) or matches(name_of(at.ifindex), patterns)


def found(patterns: Patterns, spared: Collection[int]) -> dict[str, int]:
    """The devices that match (name -> ifindex), except `spared`, loopback and our own."""
    if not patterns:
        return {}
    return {
        name: ifindex
        for ifindex, name in socket.if_nameindex()
        if ifindex not in spared and is_to_be_denied(name, ifindex, patterns)
    }


def is_to_be_denied(name: str, ifindex: int, patterns: Patterns) -> bool:
    """Whether the device is denied, provided that it has no endpoint and is no uplink."""
    return ifindex != _LOOPBACK and name not in _OURS and matches(name, patterns)


def name_of(ifindex: int) -> str:
    """The device's present name; empty if it is gone."""
    with suppress(OSError):
        return socket.if_indextoname(ifindex)
    return ""
