# SPDX-License-Identifier: Apache-2.0
"""Routing rules (`ip rule`) that match on values which the FIB lookup of datapath/forward_out.h lacks.

The lookup has source, destination, protocol, ports and ingress device. The host's own filters set a
packet's mark later, and only lookups for first packets have its type of service. Packets to which such
rules apply use the stack path.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

_OTHERWISE = "load with --forwarding stack"
_FAMILIES = (2, 10)
_EVERY_BIT = 0xFFFFFFFF
_KNOWN = frozenset(
    f"FRA_{name}"
    for name in (
        *("UNSPEC", "DST", "SRC", "IIFNAME", "OIFNAME", "IP_PROTO", "SPORT_RANGE", "DPORT_RANGE"),
        *("SPORT_MASK", "DPORT_MASK"),
        *("FWMARK", "FWMASK", "L3MDEV", "UID_RANGE", "PRIORITY", "GOTO", "TABLE", "FLOW"),
        *("SUPPRESS_IFGROUP", "SUPPRESS_PREFIXLEN", "PROTOCOL", "PAD"),
    )
)
"""Attributes that the FIB lookup knows, or that are no condition.

The list excludes DSCP (6.13), IPv6's flow label and a tunnel's number, by any name that a release of
pyroute2 has for them.
"""
_PORT_MASKS = (28, 29)
"""FRA_SPORT_MASK, FRA_DPORT_MASK.

Newer kernels add one to each rule with a port, which the lookup knows; pyroute2 may have no names for
them.
"""


def read() -> tuple[int, bool]:
    """The bits of marks that some rule reads, and whether a rule reads a value that no hook reads."""
    marks, asks_more = 0, False
    try:
        with rtnetlink.connection("the fast path", f", or {_OTHERWISE}") as netlink:
            for family in _FAMILIES:
                for rule in rtnetlink.dump(partial(netlink.get_rules, family=family)):
                    marks |= _marks(rule)
                    asks_more |= _asks_more(rule)
    except OSError as error:
        raise HostError(
            f"rtnetlink cannot read the routing rules: {error.strerror}", _OTHERWISE
        ) from error
    return marks, asks_more


def told_of(uplinks: Sequence[int], note: Callable[[str], object]) -> tuple[list[int], int]:
    """The uplinks that allow the fast path, and the marks of packets that may not use it.

    `note` is told if there is no such uplink.
    """
    if not uplinks:
        return [], 0
    marks, asks_more = read()
    if asks_more:
        note("a routing rule matches the type of service, so pods' packets take the stack path")
        return [], marks
    return list(uplinks), marks


def _marks(rule: Any) -> int:
    """The marks that a rule reads; a rule for packets without a mark reads one, too."""
    mask = rule.get_attr("FRA_FWMASK")
    mark = rule.get_attr("FRA_FWMARK")
    if mark is None and mask is None:
        return 0
    return int(_EVERY_BIT if mask is None else mask)


def _asks_more(rule: Any) -> bool:
    return bool(rule["tos"]) or not all(map(_is_known, rule["attrs"]))


def _is_known(attribute: Any) -> bool:
    name, value = attribute[0], attribute[1]
    return name in _KNOWN or (name == "UNKNOWN" and value["header"]["type"] in _PORT_MASKS)
