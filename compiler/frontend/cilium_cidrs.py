# SPDX-License-Identifier: Apache-2.0
"""Cilium's CIDR rules and CIDR groups: addresses of neither endpoints nor nodes (E45)."""

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass, field

from policyc.compiler.frontend import codes_admin, codes_cilium
from policyc.compiler.frontend.addresses import parse_cidr
from policyc.compiler.frontend.cilium_selectors import Terms, decode_terms
from policyc.compiler.frontend.crd_schema import SchemaDecoder
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.metadata import quoted
from policyc.compiler.frontend.nodes import Mapping, Node
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.ir.matching import requirement_holds
from policyc.ir.policy import (
    EVERY_ENDPOINT,
    AddressPeer,
    AllOf,
    EndpointPeer,
    Network,
    NodePeer,
    Not,
    OneOf,
    Peer,
    Requirement,
)
from policyc.ir.spans import Span

OUTSIDE: tuple[Peer, ...] = (Not(EndpointPeer(EVERY_ENDPOINT)), Not(NodePeer()))
"""Neither an endpoint nor a node."""
_RULE_FIELDS = frozenset({"cidr", "cidrGroupRef", "cidrGroupSelector", "except"})
_ONE_OF = ("cidr", "cidrGroupRef", "cidrGroupSelector")


@dataclass(frozen=True, slots=True)
class CidrGroup:
    """A CiliumCIDRGroup: addresses that rules refer to by its name or its labels."""

    name: str
    labels: Map[str, str] = field(hash=False)
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class CidrRule:
    """An item of a CIDR list: a network, a group by name, or groups by their labels; less `excepts`."""

    network: Network | None
    group: str
    groups: Terms | None
    excepts: tuple[Network, ...]
    path: str
    span: Span = field(compare=False)


def decode_cidr(decoder: SchemaDecoder, item: Node, path: str) -> CidrRule | None:
    """An item of fromCIDR or toCIDR; an address alone is a network of one."""
    text = None if item.is_null else decoder.text(item, path)
    if text is None:
        if item.is_null:
            decoder.item_object(item, path)
        return None
    network = _network(decoder, text, item, path, may_be_address=True)
    return None if network is None else CidrRule(network, "", None, (), path, item.span)


def decode_cidr_rule(decoder: SchemaDecoder, item: Node, path: str) -> CidrRule | None:
    """An item of fromCIDRSet or toCIDRSet."""
    node = decoder.item_object(item, path, _RULE_FIELDS)
    if node is None:
        return None
    which = decoder.one_of(node, path, _ONE_OF)
    network = _field(decoder, node, "cidr", path) if which == "cidr" else None
    group = decoder.string(node, "cidrGroupRef", path) or ""
    groups = decode_terms(decoder, node, "cidrGroupSelector", path)
    excepts = tuple(_excepts(decoder, node, path, network))
    if which is None or (which == "cidr" and network is None):
        return None
    return CidrRule(network, group, groups, excepts, path, node.span)


def _field(decoder: SchemaDecoder, node: Mapping, name: str, path: str) -> Network | None:
    value = node.get(name)
    text = decoder.string(node, name, path)
    if value is None or text is None:
        return None
    return _network(decoder, text, value, f"{path}.{name}")


def _excepts(
    decoder: SchemaDecoder, node: Mapping, path: str, network: Network | None
) -> Iterator[Network]:
    for item, where in decoder.items(node, "except", path):
        text = decoder.text(item, where)
        hole = None if text is None else _network(decoder, text, item, where)
        if hole is None:
            continue
        if network is not None and not _is_inside(hole, network):
            finding = codes_cilium.EXCEPT_OUTSIDE.at(
                item.span, where, where=where, value=quoted(text), cidr=network
            )
            decoder.report.add(finding.note(node.span_of("cidr"), "the CIDR is here"))
            continue
        yield hole


def _is_inside(inner: Network, outer: Network) -> bool:
    return (
        inner.version == outer.version
        and inner.prefixlen >= outer.prefixlen
        and inner.network_address in outer
    )


def _network(
    decoder: SchemaDecoder, text: str, node: Node, where: str, may_be_address: bool = False
) -> Network | None:
    """What Go's netip takes; host bits are masked, with a warning."""
    bits = 128 if ":" in text else 32
    alone = None if "/" in text else parse_cidr(f"{text}/{bits}")
    cidr = alone if may_be_address and alone is not None else parse_cidr(text)
    if cidr is None or cidr.has_leading_zeros or cidr.is_mapped:
        finding = codes_cilium.BAD_CIDR.at(node.span, where, where=where, value=quoted(text))
        decoder.report.add(finding.help("" if alone is None else f"write {alone.network}"))
        return None
    if cidr.has_host_bits:
        warning = codes_admin.HOST_BITS.at(
            node.span, where, where=where, value=quoted(text), network=cidr.network
        )
        decoder.report.add(warning.help(f"write {cidr.network}"))
    return cidr.network


def decode_networks(
    decoder: SchemaDecoder, node: Mapping, name: str, path: str
) -> tuple[Network, ...]:
    """A list of CIDRs, or of addresses."""
    found = []
    for item, where in decoder.items(node, name, path):
        rule = decode_cidr(decoder, item, where)
        if rule is not None and rule.network is not None:
            found.append(rule.network)
    return tuple(found)


def lower_cidr_rule(rule: CidrRule, around: Surroundings) -> Peer | None:
    """The peer; None where it names a group that there is not, which is reported."""
    if rule.network is not None:
        networks: tuple[Network, ...] = (rule.network,)
    elif rule.groups is not None:
        networks = tuple(_of_groups(rule.groups, around.of(CidrGroup)))
    else:
        named = next((g for g in around.of(CidrGroup) if g.name == rule.group), None)
        if named is None:
            where = f"{rule.path}.cidrGroupRef"
            names = [group.name for group in around.of(CidrGroup)]
            found = codes_cilium.UNKNOWN_GROUP.at(rule.span, where, where=where, name=rule.group)
            around.report.add(found.help(did_you_mean(rule.group, names) or "give it with -f"))
            return None
        networks = named.networks
    holes = _any_of(rule.excepts)
    return AllOf((_any_of(networks), *((Not(holes),) if rule.excepts else ()), *OUTSIDE))


def _any_of(networks: Iterable[Network]) -> Peer:
    found = tuple(AddressPeer(network) for network in networks)
    return found[0] if len(found) == 1 else OneOf(found)


def _of_groups(selector: Terms, groups: Iterable[CidrGroup]) -> Iterator[Network]:
    """The networks of the groups with these labels."""
    wanted = [Requirement(term.key, term.operator, term.values) for term in selector.terms]
    for group in groups:
        if all(requirement_holds(requirement, group.labels) for requirement in wanted):
            yield from group.networks
