# SPDX-License-Identifier: Apache-2.0
"""Services as text of policyc's rule language (semantics G54, G55); raises UnsayableError."""

import re

from policyc.backends.policies.normal_form import UnsayableError
from policyc.grammar.icmp_types import ICMP_TYPES, ICMPV6_TYPES
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
from policyc.ir.services import ICMP_NUMBER, Kind

_LAST_PORT = 65535
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TYPES = {
    Kind.ICMP: {number: name for name, number in ICMP_TYPES.items()},
    Kind.ICMPV6: {number: name for name, number in ICMPV6_TYPES.items()},
}


def service_texts(rule: Rule) -> list[str] | None:
    """The rule's services, and its excepted ones; empty is any, None is none at all."""
    if any(isinstance(ports, AnyService) for ports in rule.except_ports):
        return None
    if any(isinstance(ports, AnyService) for ports in rule.ports):
        found = ["any"] if rule.except_ports else []
    else:
        found = _texts(rule.ports)
        if not found:
            return None
    if rule.except_ports:
        found[-1] += f" except {_excepted(rule)}"
    return found


def _excepted(rule: Rule) -> str:
    texts = _texts(rule.except_ports)
    return texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"


def _texts(services: tuple[Ports, ...]) -> list[str]:
    """Every service once; ICMP of both families in one word."""
    left = list(dict.fromkeys(services))
    found: dict[str, None] = {}
    for ports in services:
        if ports not in left:
            continue
        both = _of_both_families(ports)
        if both is not None and both[0] in left and both[1] in left:
            found[both[2]] = None
            left = [each for each in left if each not in both[:2]]
        else:
            found[_service(ports)] = None
    return list(found)


def _of_both_families(ports: Ports) -> tuple[IcmpType, IcmpType, str] | None:
    """The two services that one word stands for, and the word."""
    if not isinstance(ports, IcmpType) or ports.code is not None:
        return None
    if ports.type is None:
        return IcmpType(Kind.ICMP), IcmpType(Kind.ICMPV6), "icmp"
    name = _TYPES[ports.kind].get(ports.type)
    if name not in ICMP_TYPES or name not in ICMPV6_TYPES:
        return None
    first, second = IcmpType(Kind.ICMP, ICMP_TYPES[name]), IcmpType(Kind.ICMPV6, ICMPV6_TYPES[name])
    return first, second, f"icmp {name}"


def _service(ports: Ports) -> str:
    match ports:
        case AnyService():
            return "any"
        case EveryPort(protocol):
            return protocol.name.lower()
        case PortRange(protocol, 0, hi) if hi == _LAST_PORT:
            return protocol.name.lower()
        case PortRange(protocol, lo, hi):
            if lo == 0:
                raise UnsayableError("it matches port 0, but ports are 1 to 65535")
            return f"{protocol.name.lower()}/{lo if lo == hi else f'{lo}-{hi}'}"
        case NamedPort(protocol, name):
            if not _PORT_NAME.fullmatch(name) or name == "any":
                raise UnsayableError(f"it asks for a port by the name {name!r}")
            return f"{protocol.name.lower()}/{name}"
        case IcmpType():
            return _icmp(ports)
        case ProtocolNumber(number):
            return f"protocol {number}"


def _icmp(ports: IcmpType) -> str:
    """ICMP of one family; the word `icmp` with a name alone would mean both."""
    names = _TYPES[ports.kind]
    if ports.type is None:
        return f"protocol {ICMP_NUMBER}" if ports.kind is Kind.ICMP else "icmpv6"
    name = names.get(ports.type)
    if ports.kind is Kind.ICMP and ports.code is None and name in ICMPV6_TYPES:
        name = None
    code = "" if ports.code is None else f" code {ports.code}"
    return f"{ports.kind.name.lower()} {ports.type if name is None else name}{code}"
