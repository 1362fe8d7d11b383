# SPDX-License-Identifier: Apache-2.0
"""The scalar values in Calico's objects: choices, numbers, CIDRs, protocols, ports (semantics D43).

Each function decodes a field and reports its mistakes; an invalid value is left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from math import isfinite

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.calico import codes as codes_calico
from policyc.compiler.frontend.kubernetes.addresses import (
    parse_address,
    parse_cidr,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import port_name_problems
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import (
    MAX_SHOWN,
    Mapping,
    Node,
    Scalar,
    clipped,
)
from policyc.ir.policy import Network
from policyc.ir.spans import Span
from policyc.ir.universe import Address

PROTOCOLS = {"TCP": 6, "UDP": 17, "ICMP": 1, "ICMPv6": 58, "SCTP": 132, "UDPLite": 136}
WITH_PORTS = frozenset({6, 17, 132})
PROTOCOL_NUMBERS = range(1, 256)
PORTS = range(1, 65536)
_DIGITS = re.compile(r"[0-9]{1,9}")
_RANGE = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")
_PORT_FORMS = 'ports are numbers, "8080:8090" for a range, or names'


@dataclass(frozen=True, slots=True)
class Port:
    """A port, a range of them (both ends included), or a name; `lo` is 0 for a name."""

    lo: int
    hi: int
    name: str
    span: Span = field(compare=False)
    path: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Net:
    """A CIDR and its place."""

    network: Network
    span: Span = field(compare=False)
    path: str = field(compare=False)


def choice(
    decoder: Decoder, parent: Mapping, name: str, path: str, choices: Iterable[str]
) -> str | None:
    """A text that must be one of `choices`; None if it is absent or another."""
    text = decoder.string(parent, name, path)
    return _chosen(decoder, text, parent.span_of(name), f"{path}.{name}", choices)


def chosen_set(
    decoder: Decoder, parent: Mapping, name: str, path: str, choices: Iterable[str]
) -> tuple[str, ...]:
    """A list of `choices`, each at most once."""
    found: list[str] = []
    for index, (item, where) in enumerate(decoder.items(parent, name, path)):
        span = parent.span_of_item(name, index)
        text = _chosen(decoder, decoder.text(item, where), span, where, choices)
        if text in found:
            decoder.report.add(
                codes_calico.DUPLICATE.at(span, where, where=where, value=quoted(text))
            )
        elif text is not None:
            found.append(text)
    return tuple(found)


def _chosen(
    decoder: Decoder, text: str | None, span: Span, where: str, choices: Iterable[str]
) -> str | None:
    if not text or text in choices:
        return text or None
    listed = ", ".join(choices)
    finding = codes_calico.CHOICE.at(span, where, where=where, value=quoted(text), choices=listed)
    decoder.report.add(finding.help(did_you_mean(text, choices)))
    return None


def decimal(decoder: Decoder, parent: Mapping, name: str, path: str) -> float | None:
    """A number, with or without a fraction; None if it is absent or not a number."""
    node = parent.get(name)
    if node is None:
        return None
    value = node.value if isinstance(node, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value):
        return float(value)
    where = f"{path}.{name}"
    finding = codes.WRONG_TYPE.at(
        node.span, where, where=where, expected="a number", found=node.describe()
    )
    decoder.report.add(finding)
    return None


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def is_blank(parent: Mapping, name: str) -> bool:
    """Whether a field is absent, null or the empty text."""
    node = parent.get(name)
    return node is None or (isinstance(node, Scalar) and node.value == "")


def nets(decoder: Decoder, parent: Mapping, name: str, path: str) -> tuple[Net, ...]:
    """CIDRs of a rule: with a prefix length, and without host bits."""
    return tuple(_nets(decoder, parent, name, path, is_strict=True))


def set_nets(decoder: Decoder, parent: Mapping, name: str, path: str) -> tuple[Net, ...]:
    """CIDRs of a network set: addresses count, too, and host bits are masked."""
    return tuple(_nets(decoder, parent, name, path, is_strict=False))


def _nets(
    decoder: Decoder, parent: Mapping, name: str, path: str, is_strict: bool
) -> Iterator[Net]:
    for item, where in decoder.items(parent, name, path):
        text = decoder.text(item, where)
        if text is None:
            continue
        network = _network(decoder, text, item, where, is_strict)
        if network is not None:
            yield Net(network, item.span, where)


def _network(
    decoder: Decoder, text: str, item: Node, where: str, is_strict: bool
) -> Network | None:
    whole = f"{text}/{128 if ':' in text else 32}"
    if not is_strict and parse_address(text) is not None:
        text = whole
    cidr = parse_cidr(text)
    if cidr is None or cidr.has_leading_zeros or cidr.is_mapped:
        problem = ": it is an address" if parse_address(text) is not None else ""
        finding = codes_calico.NET.at(
            item.span, where, where=where, value=quoted(text), problem=problem
        )
        decoder.report.add(finding.help(f"write {whole}" if problem else ""))
        return None
    if is_strict and cidr.has_host_bits:
        finding = codes_calico.NET_HOST_BITS.at(item.span, where, where=where, value=quoted(text))
        one = f"{cidr.address}/{cidr.address.max_prefixlen}"
        decoder.report.add(finding.help(f"write {cidr.network}, or for the one address {one}"))
        return None
    return cidr.network


def addresses(decoder: Decoder, parent: Mapping, name: str, path: str) -> tuple[Address, ...]:
    """A list of addresses."""
    found: list[IPv4Address | IPv6Address] = []
    for item, where in decoder.items(parent, name, path):
        text = decoder.text(item, where)
        if text is None:
            continue
        address = parse_address(text)
        if address is None:
            decoder.report.add(
                codes_calico.ADDRESS.at(item.span, where, where=where, value=quoted(text))
            )
        else:
            found.append(address)
    return tuple(found)


def protocol(decoder: Decoder, parent: Mapping, name: str, path: str) -> int | None:
    """A protocol by its name or number, as its number; None if it is absent or wrong."""
    value = decoder.int_or_string(parent, name, path)
    if value is None:
        return None
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, str) and value in PROTOCOLS:
        return PROTOCOLS[value]
    if isinstance(value, int) and value in PROTOCOL_NUMBERS:
        return value
    where = f"{path}.{name}"
    finding = codes_calico.PROTOCOL.at(
        parent.span_of(name), where, where=where, value=quoted(value)
    )
    hint = did_you_mean(value, PROTOCOLS) if isinstance(value, str) else "numbers are 1 to 255"
    decoder.report.add(finding.help(hint))
    return None


def ports(decoder: Decoder, parent: Mapping, name: str, path: str) -> tuple[Port, ...]:
    """The ports of a source or destination: numbers, ranges and names."""
    read = (_port(decoder, item, where) for item, where in decoder.items(parent, name, path))
    return tuple(port for port in read if port is not None)


def _port(decoder: Decoder, item: Node, where: str) -> Port | None:
    value = item.value if isinstance(item, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | str):
        finding = codes.WRONG_TYPE.at(
            item.span,
            where,
            where=where,
            expected="an integer or a string",
            found=item.describe(),
        )
        decoder.report.add(finding.help(_PORT_FORMS))
        return None
    text = str(value) if len(str(value)) < MAX_SHOWN else clipped(str(value))
    ends = _RANGE.fullmatch(text)
    if ends is None and not _DIGITS.fullmatch(text) and isinstance(value, str):
        problem = "; ".join(port_name_problems(text))
        return _checked(decoder, Port(0, 0, text, item.span, where), text, problem)
    lo, hi = (int(end) for end in ends.groups()) if ends else (_number(text), _number(text))
    problem = ""
    if lo not in PORTS or hi not in PORTS:
        problem = "numbers are 1 to 65535"
    elif lo > hi:
        problem = "the range ends before it starts"
    return _checked(decoder, Port(lo, hi, "", item.span, where), value, problem)


def _number(text: str) -> int:
    return int(text) if _DIGITS.fullmatch(text) else 0


def _checked(decoder: Decoder, port: Port, value: object, problem: str) -> Port | None:
    if not problem:
        return port
    finding = codes_calico.PORT.at(
        port.span, port.path, where=port.path, value=quoted(value), problem=problem
    )
    decoder.report.add(finding.help(_PORT_FORMS))
    return None
