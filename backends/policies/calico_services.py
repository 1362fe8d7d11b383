# SPDX-License-Identifier: Apache-2.0
"""A rule's protocols and ports in terms of Calico's rules (semantics D43).

A Calico rule has one protocol, one excluded protocol (`notProtocol`), and one ICMP type. Ports need a
protocol that has ports. Port 0 has no number there, but it is among the ports that are not excluded.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policyc.backends.policies.normal_form import UnsayableError
from policyc.backends.policies.target import Object
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    AnyService,
    EveryPort,
    IcmpType,
    NamedPort,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.services import ICMP_NUMBER, ICMPV6_NUMBER, Kind, Protocol

_NAMES = {6: "TCP", 17: "UDP", 132: "SCTP", ICMP_NUMBER: "ICMP", ICMPV6_NUMBER: "ICMPv6"}
_ICMP = {ICMP_NUMBER: Kind.ICMP, ICMPV6_NUMBER: Kind.ICMPV6}
_IMPOSSIBLE = {4: ICMPV6_NUMBER, 6: ICMP_NUMBER}
"""Family -> the protocol that never runs over it."""
_EVERY_NUMBER = IntervalSet.of([(0, 65535)])
_WITH_PORTS = tuple(protocol.value for protocol in Protocol)
_LAST_ICMP_TYPE = 254
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LONGEST_PORT_NAME = 15


@dataclass(frozen=True, slots=True)
class ServiceWords:
    """Fields of a rule, and of its source and destination."""

    rule: Object = field(default_factory=dict)
    source: Object = field(default_factory=dict)
    destination: Object = field(default_factory=dict)


def is_of_both_families(rule: Rule) -> bool:
    """Whether it excludes ICMP of both families, which needs one rule per family."""
    numbers = set(map(_number, rule.except_ports)) if _asks_any(rule.ports) else set()
    return numbers.issuperset(_ICMP)


def services(rule: Rule, family: int | None) -> list[ServiceWords]:
    """Alternatives; none if no service matches. `family` is the family of the rule's addresses."""
    if _asks_any(rule.except_ports):
        return []
    found = list(_numbered(rule, family))
    if rule.source_ports is None:
        return [ServiceWords(fields, {}, ports) for _, fields, ports in found]
    sources = list(_from_zero(rule.source_ports))
    return [
        ServiceWords(fields, source, ports)
        for number, fields, ports in found
        if number in _WITH_PORTS
        for source in sources
    ]


def _asks_any(ports: Iterable[Ports]) -> bool:
    return any(isinstance(each, AnyService) for each in ports)


Numbered = tuple[int | None, Object, Object]
"""Protocol number (None: not one), fields of the rule, ports of the destination."""


def _numbered(rule: Rule, family: int | None) -> Iterator[Numbered]:
    never = _IMPOSSIBLE.get(family or 0)
    left_out = _by_number(rule.except_ports, never)
    if not _asks_any(rule.ports):
        for number, wanted in _by_number(rule.ports, never).items():
            yield from _of_one(number, wanted, left_out.get(number, []))
    elif rule.source_ports is not None:
        for number in _WITH_PORTS:
            yield from _of_one(number, [_whole(number)], left_out.get(number, []))
    elif not left_out:
        yield None, {}, {}
    elif len(left_out) > 1:
        raise UnsayableError(
            "it excludes several protocols, but a Calico rule can exclude only one"
        )
    else:
        ((number, excepted),) = left_out.items()
        yield None, {"notProtocol": _name(number)}, {}
        yield from _of_one(number, [_whole(number)], excepted)


def _by_number(ports: Iterable[Ports], never: int | None) -> dict[int, list[Ports]]:
    found: dict[int, list[Ports]] = {}
    for each in ports:
        number = _number(each)
        if number is not None and number != never:
            found.setdefault(number, []).append(each)
    return found


def _number(ports: Ports) -> int | None:
    match ports:
        case EveryPort(protocol) | PortRange(protocol) | NamedPort(protocol):
            return protocol.value
        case IcmpType(kind):
            return ICMP_NUMBER if kind is Kind.ICMP else ICMPV6_NUMBER
        case ProtocolNumber(number):
            return number
        case AnyService():
            return None


def _whole(number: int) -> Ports:
    return ProtocolNumber(number)


def _is_whole(ports: Ports) -> bool:
    return isinstance(ports, EveryPort | ProtocolNumber | AnyService) or (
        isinstance(ports, IcmpType) and ports.type is None
    )


def _name(number: int) -> str | int:
    if number == 0:
        raise UnsayableError("Calico has no number for IP protocol 0")
    return _NAMES.get(number, number)


def _of_one(number: int, wanted: list[Ports], excepted: list[Ports]) -> Iterator[Numbered]:
    """The services of one protocol, without its excluded ones."""
    if any(map(_is_whole, excepted)):
        return
    base: Object = {"protocol": _name(number)}
    if number in _WITH_PORTS:
        for ports in _ports(wanted, excepted):
            yield number, base, ports
    elif number in _ICMP:
        for fields in _icmp(number, wanted, excepted):
            yield number, base | fields, {}
    else:
        yield number, base, {}


def _ports(wanted: list[Ports], excepted: list[Ports]) -> Iterator[Object]:
    """`ports` and `notPorts`: in one rule if that can express it, else names apart from numbers."""
    without = _numbers(excepted)
    numbers = _numbers(wanted) - without
    not_named = _port_names(excepted)
    names = [] if any(map(_is_whole, wanted)) else _port_names(wanted)
    if names and 0 in without:
        raise UnsayableError("it excludes port 0 from named ports")
    if 0 in numbers:
        yield _fields([], [*_spans(_EVERY_NUMBER - numbers), *not_named])
    elif numbers:
        together = [] if without else names
        yield _fields([*_spans(numbers), *together], not_named)
        names = [name for name in names if name not in together]
    if names:
        yield _fields([*names], [*_spans(without), *not_named])


def _from_zero(numbers: IntervalSet) -> Iterator[Object]:
    """Source ports also test whether the flow has any, so all of them are two alternatives."""
    if numbers == _EVERY_NUMBER:
        yield _fields(["1:65535"], [])
        yield _fields([], ["1:65535"])
    elif 0 in numbers:
        yield _fields([], _spans(_EVERY_NUMBER - numbers))
    elif numbers:
        yield _fields(_spans(numbers), [])


def _fields(ports: list[str | int], not_ports: list[str | int]) -> Object:
    out: Object = {"ports": ports} if ports else {}
    return out | {"notPorts": not_ports} if not_ports else out


def _spans(numbers: IntervalSet) -> list[str | int]:
    return [lo if lo == hi else f"{lo}:{hi}" for lo, hi in numbers]


def _numbers(ports: list[Ports]) -> IntervalSet:
    if any(map(_is_whole, ports)):
        return _EVERY_NUMBER
    return IntervalSet.of((each.lo, each.hi) for each in ports if isinstance(each, PortRange))


def _port_names(ports: list[Ports]) -> list[str | int]:
    return [_legal(name) for name in dict.fromkeys(_names_of(ports))]


def _names_of(ports: list[Ports]) -> Iterator[str]:
    return (each.name for each in ports if isinstance(each, NamedPort))


def _legal(name: str) -> str:
    """The name of a port.

    A name that no container port may have could be a number or range to Calico.
    """
    is_form = _PORT_NAME.fullmatch(name) and len(name) <= _LONGEST_PORT_NAME
    if not is_form or "--" in name:
        raise UnsayableError(f"it asks for a port by the name {name!r}, which no port has")
    return name


def _icmp(number: int, wanted: list[Ports], excepted: list[Ports]) -> Iterator[Object]:
    """`icmp` and `notICMP`: one type, and optionally one code, of each."""
    kind = _ICMP[number]
    asked = [IcmpType(kind)] if any(map(_is_whole, wanted)) else _types(wanted)
    for one in asked:
        inside = [each for each in _types(excepted) if _overlap(one, each)]
        if any(_covers(each, one) for each in inside):
            continue
        if len(inside) > 1:
            raise UnsayableError(
                "it excludes several ICMP types or codes, but a Calico rule can exclude only one"
            )
        out: Object = {} if one.type is None else {"icmp": _type(one)}
        yield out | {"notICMP": _type(inside[0])} if inside else out


def _types(ports: list[Ports]) -> list[IcmpType]:
    return list(dict.fromkeys(each for each in ports if isinstance(each, IcmpType)))


def _overlap(one: IcmpType, other: IcmpType) -> bool:
    return (None in (one.type, other.type) or one.type == other.type) and (
        None in (one.code, other.code) or one.code == other.code
    )


def _covers(outer: IcmpType, inner: IcmpType) -> bool:
    return outer.type in (None, inner.type) and outer.code in (None, inner.code)


def _type(icmp: IcmpType) -> Object:
    if icmp.type is not None and icmp.type > _LAST_ICMP_TYPE:
        raise UnsayableError(f"Calico has no number for ICMP type {icmp.type}")
    out: Object = {"type": icmp.type}
    return out if icmp.code is None else out | {"code": icmp.code}
