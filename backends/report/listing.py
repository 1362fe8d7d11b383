# SPDX-License-Identifier: Apache-2.0
"""The parts of a listing that several formats show."""

from policyc.ir.counts import counted
from policyc.ir.policy import Direction
from policyc.ir.results.listing import EndGroup, Exposure, ListResult, ServiceRange

PORTS = ("TCP", "UDP", "SCTP")
ICMP = ("ICMP", "ICMPV6")


def listing_headline(result: ListResult) -> str:
    """The numbers of groups and of pairs that may and may not talk, in one sentence."""
    groups = counted(result.n_groups, "group")
    pairs = counted(result.n_connected, "pair")
    head = f"{groups} of ends that behave equally: {pairs} of groups may talk, {result.n_silent} may not"
    return f"{head} (about {', '.join(result.focus)})" if result.focus else head


def family_words(families: tuple[int, ...], others: tuple[int, ...] = (4, 6)) -> str:
    """` (IPv4 only)` if a connection is of one family and could be of another."""
    if len(families) == 1 and len(others) > 1:
        return f" (IPv{families[0]} only)"
    return ""


def shared_families(one: EndGroup, other: EndGroup) -> tuple[int, ...]:
    """The families in which two groups could talk."""
    return tuple(family for family in one.families if family in other.families)


def range_words(given: ServiceRange) -> str:
    """`80`, `8000-8999`, `type 8 code 0`; empty if it is the whole protocol."""
    if given.protocol == "any" or (given.first, given.last) == _whole(given.protocol):
        return ""
    if given.protocol in ICMP:
        first, last = (f"{value >> 8}/{value & 0xFF}" for value in (given.first, given.last))
    else:
        first, last = str(given.first), str(given.last)
    return first if first == last else f"{first}-{last}"


def _whole(protocol: str) -> tuple[int, int]:
    return (0, 0xFFFF) if protocol in (*PORTS, *ICMP) else (0, 0xFF)


def isolation_words(exposure: Exposure) -> str:
    """Whether traffic passes that no rule allows, and the policies that isolate."""
    if not exposure.isolated_by:
        return "not isolated: what no rule denies passes"
    names = [place.words for place in exposure.isolated_by]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"isolated by {', '.join(names[:3])}{more}"


def other_side(direction: Direction) -> str:
    """`from` for incoming, `to` for outgoing connections."""
    return "from" if direction is Direction.INGRESS else "to"
