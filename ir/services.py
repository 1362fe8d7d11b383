# SPDX-License-Identifier: Apache-2.0
"""Services of flows: protocol and destination port, or ICMP type and code.

Every service has one *service key*, a number in `ALL_SERVICES`: `kind << 16 | value`. It is the same in
the Decision IR, the seeds and the datapath (docs/bundle-format.md).
"""

from enum import Enum, IntEnum

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.intervals import IntervalSet


class Protocol(Enum):
    """The transport protocols that Kubernetes names; the value is the IP protocol number."""

    TCP = 6
    UDP = 17
    SCTP = 132

    @property
    def kind(self) -> "Kind":
        """The service-key kind of this protocol's destination ports."""
        return Kind[self.name]


class Kind(IntEnum):
    """The upper half of a service key."""

    TCP = 0
    UDP = 1
    SCTP = 2
    ICMP = 3
    ICMPV6 = 4
    OTHER = 5


ICMP_NUMBER = 1
ICMPV6_NUMBER = 58
_KIND_OF_NUMBER = {
    6: Kind.TCP,
    17: Kind.UDP,
    132: Kind.SCTP,
    ICMP_NUMBER: Kind.ICMP,
    ICMPV6_NUMBER: Kind.ICMPV6,
}
_NUMBER_OF_KIND = {kind: number for number, kind in _KIND_OF_NUMBER.items()}


def kind_of_number(number: int) -> Kind:
    """The kind of an IP protocol number."""
    return _KIND_OF_NUMBER.get(number, Kind.OTHER)


_KINDS = tuple(Kind)
_LAST = {kind: kind << 16 | (0xFF if kind is Kind.OTHER else 0xFFFF) for kind in _KINDS}
"""The last service key of each kind."""


def kind_span(kind: Kind) -> IntervalSet:
    """Every service key of one kind."""
    return IntervalSet.of([(kind << 16, _LAST[kind])])


ALL_SERVICES = IntervalSet.of([(0, (Kind.OTHER << 16) | 0xFF)])


@dataclass(frozen=True, slots=True)
class Service:
    """A service of a flow. `number` is the IP protocol number.

    `value` is the destination port for TCP, UDP and SCTP, `type << 8 | code` for ICMP and ICMPv6, and 0
    for any other protocol.
    """

    number: int
    value: int = 0

    @property
    def kind(self) -> Kind:
        """The upper half of the service key."""
        return kind_of_number(self.number)

    @property
    def key(self) -> int:
        """The service key."""
        kind = self.kind
        return (kind << 16) | (self.number if kind is Kind.OTHER else self.value)

    @staticmethod
    def from_key(key: int) -> "Service":
        """The service with this key."""
        kind = Kind(key >> 16)
        if kind is Kind.OTHER:
            return Service(key & 0xFF)
        return Service(_NUMBER_OF_KIND[kind], key & 0xFFFF)

    def __str__(self) -> str:
        kind = self.kind
        match kind:
            case Kind.OTHER:
                return f"protocol {self.number}"
            case Kind.ICMP | Kind.ICMPV6:
                return f"{kind.name} type {self.value >> 8} code {self.value & 0xFF}"
            case _:
                return f"{kind.name} {self.value}"


NEIGHBOUR_DISCOVERY = range(133, 138)
"""ICMPv6 types of RFC 4861: router and neighbour solicitations and advertisements, redirect."""


def is_neighbour_discovery(service: Service) -> bool:
    """Whether a service is neighbour discovery, which no policy decides on its link (A26)."""
    return service.number == ICMPV6_NUMBER and service.value >> 8 in NEIGHBOUR_DISCOVERY


def describe_services(keys: IntervalSet) -> str:
    """A set of service keys in words: `TCP 80-90, UDP, ICMP`, or `any service except TCP 53`."""
    if keys == ALL_SERVICES:
        return "any service"
    words, except_ = _words_of(keys), _words_of(ALL_SERVICES - keys)
    if len(except_) + 1 < len(words):
        return f"any service except {_and(except_)}"
    return ", ".join(words) if words else "nothing"


def _and(words: list[str]) -> str:
    """The words in one phrase, so that a list may hold it."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _words_of(keys: IntervalSet) -> list[str]:
    return [
        _span_words(kind, max(lo, kind << 16), min(hi, _LAST[kind]))
        for lo, hi in keys
        for kind in _KINDS[lo >> 16 : (hi >> 16) + 1]
    ]


def _span_words(kind: Kind, lo: int, hi: int) -> str:
    if lo == kind << 16 and hi == _LAST[kind]:
        return "other protocols" if kind is Kind.OTHER else kind.name
    if kind <= Kind.SCTP:
        ports = f"{kind.name} {lo & 0xFFFF}"
        return ports if lo == hi else f"{ports}-{hi & 0xFFFF}"
    first, last = Service.from_key(lo), Service.from_key(hi)
    if lo == hi:
        return str(first)
    if first.kind in (Kind.ICMP, Kind.ICMPV6):
        return f"{first.kind.name} {_icmp_words(first.value, last.value)}"
    return f"{first}-{last.value if last.value else last.number}"


def _icmp_words(lo: int, hi: int) -> str:
    """The range between two `type << 8 | code` in words: whole types, codes of a type, or both ends."""
    one, other = lo >> 8, hi >> 8
    if lo & 0xFF == 0 and hi & 0xFF == 0xFF:
        return f"type {one}" if one == other else f"type {one}-{other}"
    if one == other:
        return f"type {one} code {lo & 0xFF}-{hi & 0xFF}"
    return f"type {one} code {lo & 0xFF} to type {other} code {hi & 0xFF}"
