# SPDX-License-Identifier: Apache-2.0
"""Intended regions: the region that a change's author would name, around a region that Z3 found.

Unchanged rules split the flows that a change opens or closes into pieces. Each piece is true, and none
of them is what a reader wants. The words of the changed rules describe all pieces in one region. A
remark says once that other rules decide some of its flows alike before and after.
"""

from collections.abc import Callable, Iterable, Sequence

from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, Peer
from policyc.ir.policy import NamedPort
from policyc.ir.services import ALL_SERVICES, Kind, kind_span
from policyc.verifier.symbolic.differences import plain_services
from policyc.verifier.symbolic.literals import (
    Declares,
    Family,
    Generated,
    Literal,
    Other,
    Own,
    Services,
)

Exists = Callable[[Sequence[Literal]], bool]
"""Whether some flow that changes in this way, and is in no region yet, satisfies all of these."""


def spoken(
    literals: Sequence[Literal],
    subjects: Iterable[Own],
    peers: frozenset[Peer],
    ports: frozenset[NamedPort],
    parts: Sequence[IntervalSet],
    exists: Exists,
) -> tuple[list[Literal], list[Literal]]:
    """(the region, its ends): the second is the first without its services and family.

    `literals` imply the change. `subjects` are the subjects of changed policies that match the flow.
    `peers` and `ports` are those of changed rules, `parts` the services that rules distinguish.
    """
    about = [each for each in literals if _is_of(each, peers, ports)]
    if not any(isinstance(each, Own) and each.holds for each in about):
        about = [*list(subjects)[:1], *about]
    keys = IntervalSet.of(span for p in parts if exists([*about, Services(p)]) for span in p)
    said = list(about)
    families = [is_ipv6 for is_ipv6 in (False, True) if exists([*about, Family(is_ipv6)])]
    keys = plain_services(keys, [6 if is_ipv6 else 4 for is_ipv6 in families])
    if keys != ALL_SERVICES:
        said.append(Services(keys))
    if len(families) == 1 and not (_is_one_family(keys) or any(map(_is_block, about))):
        said.append(Family(families[0]))
    return said, about


def _is_of(literal: Literal, peers: frozenset[Peer], ports: frozenset[NamedPort]) -> bool:
    match literal:
        case Own(peer) | Other(peer):
            return peer in peers
        case Declares(port, holds):
            return holds and port in ports
        case Generated(holds):
            return holds
        case _:
            return False


def _is_block(literal: Literal) -> bool:
    """A block literal implies its family."""
    return isinstance(literal, Other) and literal.holds and isinstance(literal.peer, AddressPeer)


def _is_one_family(keys: IntervalSet) -> bool:
    """ICMP and ICMPv6 imply their family."""
    return any(not keys - kind_span(kind) for kind in (Kind.ICMP, Kind.ICMPV6))
