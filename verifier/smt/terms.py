# SPDX-License-Identifier: Apache-2.0
"""Z3 terms for what rules read: service keys, prefixes, port entries, diagrams.

Written from the Policy IR's own words (CIDRs as masks, ports as comparisons), never from the interval
code that the compiler uses. So a mistake in that code shows.
"""

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from policyc.ir.decision import Diagram
from policyc.ir.policy import (
    AddressPeer,
    AnyService,
    EveryPort,
    IcmpType,
    NamedPort,
    Network,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.services import ALL_SERVICES, Kind, Protocol
from policyc.verifier.smt.lazy_z3 import z3

Term = Any
KEY_BITS = 19
KIND_OF_PROTOCOL = {
    Protocol.TCP: Kind.TCP,
    Protocol.UDP: Kind.UDP,
    Protocol.SCTP: Kind.SCTP,
}


_KIND_OF_NUMBER = {
    **{protocol.value: kind for protocol, kind in KIND_OF_PROTOCOL.items()},
    1: Kind.ICMP,
    58: Kind.ICMPV6,
}


def service_key() -> Term:
    """A free service key."""
    return z3.BitVec("service", KEY_BITS)


def is_service(key: Term) -> Term:
    """The key is one that a packet can have."""
    return z3.ULE(key, ALL_SERVICES.spans[-1][1])


def in_network(address: Term, network: Network) -> Term:
    """Whether an address (a bit vector of the family's width) is inside a CIDR."""
    width = network.max_prefixlen
    free = width - network.prefixlen
    if free == width:
        return z3.BoolVal(True)
    prefix = int(network.network_address) >> free
    return z3.Extract(width - 1, free, address) == z3.BitVecVal(prefix, width - free)


def in_block(address: Term, block: AddressPeer) -> Term:
    """Whether an address is inside the CIDR and in none of its excepts (A14)."""
    holes = [in_network(address, hole) for hole in block.excepts]
    return z3.And(in_network(address, block.network), *(z3.Not(hole) for hole in holes))


def is_kind(key: Term, protocol: Protocol) -> Term:
    """The key is one of this protocol."""
    return _kind_of(key) == int(KIND_OF_PROTOCOL[protocol])


def _kind_of(key: Term) -> Term:
    return z3.Extract(KEY_BITS - 1, 16, key)


def port_of(key: Term) -> Term:
    """The destination port of a key."""
    return z3.Extract(15, 0, key)


def asks_for(key: Term, ports: Ports, named: Callable[[NamedPort], Term]) -> Term:
    """The key is among a port entry's; `named` gives the numbers that the destination declares."""
    match ports:
        case AnyService():
            return z3.BoolVal(True)
        case EveryPort(protocol):
            return is_kind(key, protocol)
        case PortRange(protocol, lo, hi):
            port = port_of(key)
            return z3.And(is_kind(key, protocol), z3.UGE(port, lo), z3.ULE(port, hi))
        case NamedPort(protocol):
            return z3.And(is_kind(key, protocol), named(ports))
        case IcmpType(kind, icmp_type, code):
            asked = [_kind_of(key) == int(kind)]
            if icmp_type is not None:
                asked.append(z3.Extract(15, 8, key) == icmp_type)
            if code is not None:
                asked.append(z3.Extract(7, 0, key) == code)
            return z3.And(*asked)
        case ProtocolNumber(number):
            kind = _KIND_OF_NUMBER.get(number, Kind.OTHER)
            if kind is Kind.OTHER:
                return z3.And(_kind_of(key) == int(kind), port_of(key) == number)
            return _kind_of(key) == int(kind)
        case _:
            assert_never(ports)


def asked_by(key: Term, rule: Rule, named: Callable[[NamedPort], Term]) -> Term:
    """The key is among a rule's ports and none of its excepted ones."""
    among = z3.Or(*(asks_for(key, entry, named) for entry in rule.ports))
    if not rule.except_ports:
        return among
    return z3.And(among, *(z3.Not(asks_for(key, entry, named)) for entry in rule.except_ports))


def declares(key: Term, numbers: Mapping[NamedPort, frozenset[int]]) -> Callable[[NamedPort], Term]:
    """For `asks_for`: the destination declares exactly these numbers."""

    def term(port: NamedPort) -> Term:
        return z3.Or(*(port_of(key) == n for n in sorted(numbers.get(port, ()))))

    return term


def in_range(value: Term, lo: int, hi: int) -> Term:
    """Lo <= value <= hi, unsigned."""
    return z3.And(z3.UGE(value, lo), z3.ULE(value, hi))


def diagram_term(diagram: Diagram, key: Term, leaf: Callable[[int], Term]) -> Term:
    """The leaf that a diagram gives the key, as nested comparisons of its steps."""
    term = leaf(diagram[0][1])
    for lo, value in diagram[1:]:
        term = z3.If(z3.UGE(key, lo), leaf(value), term)
    return term
