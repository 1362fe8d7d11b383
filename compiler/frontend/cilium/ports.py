# SPDX-License-Identifier: Apache-2.0
"""Cilium's toPorts and icmps -> the services of a rule (E45)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import port_name_problems
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Sequence,
)
from policyc.ir.policy import EveryPort, IcmpType, NamedPort, PortRange, Ports, ProtocolNumber
from policyc.ir.services import Kind, Protocol

MAX_PORTS = 40
LAST_PORT = 65535
_ANY = "ANY"
_TRANSPORT = {protocol.name: (protocol,) for protocol in Protocol} | {_ANY: tuple(Protocol)}
_WITHOUT_PORTS = {"VRRP": 112, "IGMP": 2, "GRE": 47, "IPIP": 4, "IPV6": 41, "ESP": 50, "AH": 51}
_PROTOCOLS = (*_TRANSPORT, *_WITHOUT_PORTS)
_PROTOCOL_HINTS = dict.fromkeys(
    ("ICMP", "ICMPv6", "ICMPV6", "icmp", "icmpv6"),
    "ICMP has no ports: remove it from toPorts, and list its types in `icmps:`",
)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,4}")
_LAYER_7 = ("rules", "terminatingTLS", "originatingTLS", "serverNames", "listener")
_PORT_RULE_FIELDS = frozenset({"ports", *_LAYER_7})
_DENY_FIELDS = frozenset({"ports"})
_PORT_FIELDS = frozenset({"port", "endPort", "protocol"})
_FAMILIES = {"IPv4": Kind.ICMP, "IPv6": Kind.ICMPV6}
_ICMP_TYPES = {
    Kind.ICMP: {
        "EchoReply": 0,
        "DestinationUnreachable": 3,
        "Redirect": 5,
        "Echo": 8,
        "EchoRequest": 8,
        "RouterAdvertisement": 9,
        "RouterSelection": 10,
        "TimeExceeded": 11,
        "ParameterProblem": 12,
        "Timestamp": 13,
        "TimestampReply": 14,
        "Photuris": 40,
        "ExtendedEchoRequest": 42,
        "ExtendedEchoReply": 43,
    },
    Kind.ICMPV6: {
        "DestinationUnreachable": 1,
        "PacketTooBig": 2,
        "TimeExceeded": 3,
        "ParameterProblem": 4,
        "EchoRequest": 128,
        "EchoReply": 129,
        "MulticastListenerQuery": 130,
        "MulticastListenerReport": 131,
        "MulticastListenerDone": 132,
        "RouterSolicitation": 133,
        "RouterAdvertisement": 134,
        "NeighborSolicitation": 135,
        "NeighborAdvertisement": 136,
        "RedirectMessage": 137,
        "RouterRenumbering": 138,
        "ICMPNodeInformationQuery": 139,
        "ICMPNodeInformationResponse": 140,
        "InverseNeighborDiscoverySolicitation": 141,
        "InverseNeighborDiscoveryAdvertisement": 142,
        "HomeAgentAddressDiscoveryRequest": 144,
        "HomeAgentAddressDiscoveryReply": 145,
        "MobilePrefixSolicitation": 146,
        "MobilePrefixAdvertisement": 147,
        "DuplicateAddressRequestCodeSuffix": 157,
        "DuplicateAddressConfirmationCodeSuffix": 158,
        "ExtendedEchoRequest": 160,
        "ExtendedEchoReply": 161,
    },
}


@dataclass(frozen=True, slots=True)
class PortRules:
    """The services of a rule (None: no condition), and its layer 7 requirements."""

    ports: tuple[Ports, ...] | None
    parts: tuple[UnsupportedPart, ...] = field(default=(), compare=False)


def decode_port_rules(decoder: SchemaDecoder, rule: Mapping, path: str, is_deny: bool) -> PortRules:
    """ToPorts or icmps of a rule; an empty list is no condition."""
    ports = list(decoder.items(rule, "toPorts", path))
    icmps = list(decoder.items(rule, "icmps", path))
    if ports and icmps:
        finding = codes.ICMP_WITH_PORTS.at(rule.span_of("icmps"), path, where=path)
        decoder.report.add(finding.help("write two rules"))
    if not ports and not icmps:
        return PortRules(None)
    found: list[Ports] = []
    parts: list[UnsupportedPart] = []
    for item, where in ports:
        node = decoder.item_object(item, where, _DENY_FIELDS if is_deny else _PORT_RULE_FIELDS)
        if node is not None:
            found += _ports(decoder, node, where)
            parts += _layer_7(node, where)
    for item, where in icmps:
        node = decoder.item_object(item, where, frozenset({"fields"}))
        if node is not None:
            found += _icmps(decoder, node, where)
    return PortRules(tuple(dict.fromkeys(found)), tuple(parts))


def _layer_7(node: Mapping, path: str) -> Iterator[UnsupportedPart]:
    """Layer 7 requirements; `rules: {}` and empty lists require nothing."""
    for name in _LAYER_7:
        value = node.get(name)
        is_empty = isinstance(value, Sequence) and not value.items
        if value is None or is_empty or (name == "rules" and not _asks(value)):
            continue
        what = "rules of layer 7" if name == "rules" else f"`{name}`"
        yield UnsupportedPart(node.entries[name].key.span, f"{path}.{name}", what)


def _asks(rules: Node) -> bool:
    """Whether there is a rule of layer 7; `http: []` is not one."""
    if not isinstance(rules, Mapping):
        return True
    values = [entry.value for _, entry in rules if not entry.value.is_null]
    return any(not isinstance(value, Sequence) or value.items for value in values)


def _ports(decoder: SchemaDecoder, node: Mapping, path: str) -> Iterator[Ports]:
    items = decoder.counted(node, "ports", path, MAX_PORTS, at_least=0)
    if not items:
        found = codes.EMPTY_PORTS.at(node.span, path, where=path)
        decoder.report.add(found.help("list ports, or remove the entry"))
    for item, where in items:
        port = decoder.item_object(item, where, _PORT_FIELDS)
        if port is not None:
            yield from _port(decoder, port, where)


def _port(decoder: SchemaDecoder, node: Mapping, path: str) -> Iterator[Ports]:
    """A number, a range or a name, of one protocol or of TCP, UDP and SCTP."""
    protocol = _ANY
    if node.get("protocol") is not None:
        protocol = decoder.choice(node, "protocol", path, _PROTOCOLS, _PROTOCOL_HINTS) or ""
    text = decoder.string(node, "port", path)
    end = decoder.bounded(node, "endPort", path, 0, LAST_PORT, is_required=False) or 0
    if text is None or not protocol:
        return
    if protocol in _WITHOUT_PORTS:
        if text not in ("", "0") or end:
            where = f"{path}.port"
            found = codes.PORT_OF_PROTOCOL.at(
                node.span_of("port"), where, where=where, protocol=protocol
            )
            decoder.report.add(found)
        yield ProtocolNumber(_WITHOUT_PORTS[protocol])
        return
    if _NUMBER.fullmatch(text) and int(text) <= LAST_PORT:
        yield from _numbers(decoder, node, path, _TRANSPORT[protocol], int(text), end)
        return
    yield from _named(decoder, node, path, _TRANSPORT[protocol], text.lower())


def _numbers(
    decoder: SchemaDecoder,
    node: Mapping,
    path: str,
    protocols: tuple[Protocol, ...],
    low: int,
    end: int,
) -> Iterator[Ports]:
    """Port 0 alone is every port of the protocol."""
    if end and (end < low or low == 0):
        where = f"{path}.endPort"
        found = codes.END_BELOW.at(node.span_of("endPort"), where, where=where, end=end, port=low)
        if low == 0:
            found = codes.BAD_PORT.at(
                node.span_of("port"), f"{path}.port", where=f"{path}.port", value='"0"'
            )
        hint = "swap the two" if low else "a range begins at 1 or above"
        decoder.report.add(found.help(hint))
        return
    for protocol in protocols:
        yield PortRange(protocol, low, end or low) if low else EveryPort(protocol)


def _named(
    decoder: SchemaDecoder,
    node: Mapping,
    path: str,
    protocols: tuple[Protocol, ...],
    name: str,
) -> Iterator[Ports]:
    where = f"{path}.port"
    if port_name_problems(name):
        value = quoted(name)
        found = codes.BAD_PORT.at(node.span_of("port"), where, where=where, value=value)
        hint = "write a number of 0 to 65535 in quotes, or the name of a container port"
        decoder.report.add(found.help(hint))
        return
    if node.get("endPort") is not None:
        where = f"{path}.endPort"
        decoder.report.add(codes.END_PORT_WITH_NAME.at(node.span_of("endPort"), where, where=where))
    yield from (NamedPort(protocol, name) for protocol in protocols)


def _icmps(decoder: SchemaDecoder, node: Mapping, path: str) -> Iterator[Ports]:
    items = decoder.counted(node, "fields", path, MAX_PORTS, at_least=0)
    if not items:
        found = codes.EMPTY_PORTS.at(node.span, path, where=path)
        decoder.report.add(found.help("list types, or remove the entry"))
    for item, where in items:
        entry = decoder.item_object(item, where, frozenset({"family", "type"}))
        if entry is None:
            continue
        family = "IPv4"
        if entry.get("family") is not None:
            family = decoder.choice(entry, "family", where, tuple(_FAMILIES)) or ""
        if decoder.required(entry, "type", where) is None or not family:
            continue
        number = _icmp_type(decoder, entry, where, family)
        if number is not None:
            yield IcmpType(_FAMILIES[family], number)


def _icmp_type(decoder: SchemaDecoder, node: Mapping, path: str, family: str) -> int | None:
    written = decoder.int_or_string(node, "type", path)
    names = _ICMP_TYPES[_FAMILIES[family]]
    if written is None:
        return None
    number = names.get(str(written))
    if number is None and _NUMBER.fullmatch(str(written)):
        number = int(written)
    if number is not None and 0 <= number <= 255:
        return number
    where = f"{path}.type"
    found = codes.BAD_ICMP_TYPE.at(
        node.span_of("type"), where, where=where, value=quoted(written), family=family
    )
    decoder.report.add(found.help(did_you_mean(str(written), names)))
    return None
