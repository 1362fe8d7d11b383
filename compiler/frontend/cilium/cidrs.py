# SPDX-License-Identifier: Apache-2.0
"""Cilium's CIDR rules and CIDR groups: addresses of neither endpoints nor nodes (E45)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from policyc.compiler.frontend.admin import codes as codes_admin
from policyc.compiler.frontend.admin.crd_schema import SchemaDecoder
from policyc.compiler.frontend.cilium import codes as codes_cilium
from policyc.compiler.frontend.cilium.selectors import (
    Terms,
    decode_terms,
)
from policyc.compiler.frontend.found import CidrGroup
from policyc.compiler.frontend.kubernetes.addresses import parse_cidr
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)
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
"""An address of neither an endpoint nor a node."""
_RULE_FIELDS = frozenset({"cidr", "cidrGroupRef", "cidrGroupSelector", "except"})
_ONE_OF = ("cidr", "cidrGroupRef", "cidrGroupSelector")


@dataclass(frozen=True, slots=True)
class CidrRule:
    """An item of a CIDR list: a network, a group by name, or groups by their labels; minus `excepts`.

    `path` and `span` are those of the field that names it.
    """

    network: Network | None
    group: str
    groups: Terms | None
    excepts: tuple[Network, ...]
    path: str
    span: Span = field(compare=False)


def decode_cidr(decoder: SchemaDecoder, item: Node, path: str) -> CidrRule | None:
    """An item of fromCIDR or toCIDR; an address alone is a network of one address."""
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
    return CidrRule(network, group, groups, excepts, f"{path}.{which}", node.span_of(which))


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
    """A CIDR that Go's netip accepts; host bits are masked, with a warning."""
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


def lower_cidr_rule(rule: CidrRule, around: Surroundings) -> Iterator[Peer | UnsupportedPart]:
    """The peer; none if it names a group that does not exist, which is reported.

    A selector of groups is not supported if the input has no groups: then its matches are not known.
    """
    if rule.groups is not None and not around.found.cidr_groups:
        what = "CiliumCIDRGroups by selector, of which none is given with -f"
        yield UnsupportedPart(rule.span, rule.path, what, is_peer=True, among=AllOf(OUTSIDE))
        return
    networks = _networks_of(rule, around)
    if networks is not None:
        holes = (Not(_any_of(rule.excepts)),) if rule.excepts else ()
        yield AllOf((_any_of(networks), *holes, *OUTSIDE))


def _networks_of(rule: CidrRule, around: Surroundings) -> tuple[Network, ...] | None:
    if rule.network is not None:
        return (rule.network,)
    if rule.groups is None:
        return _of_named_group(rule, around)
    found = [group for group in around.found.cidr_groups if _is_selected(rule.groups, group)]
    if not found:
        finding = codes_cilium.FINDS_NONE.at(
            rule.span, rule.path, where=rule.path, kind="CiliumCIDRGroup"
        )
        around.report.add(finding.help("give every CiliumCIDRGroup of the cluster with -f"))
    return tuple(network for group in found for network in group.networks)


def _of_named_group(rule: CidrRule, around: Surroundings) -> tuple[Network, ...] | None:
    groups = {group.name: group for group in around.found.cidr_groups}
    if rule.group in groups:
        return groups[rule.group].networks
    found = codes_cilium.UNKNOWN_GROUP.at(rule.span, rule.path, where=rule.path, name=rule.group)
    around.report.add(found.help(did_you_mean(rule.group, groups) or "give it with -f"))
    return None


def _any_of(networks: Iterable[Network]) -> Peer:
    found = tuple(AddressPeer(network) for network in networks)
    return found[0] if len(found) == 1 else OneOf(found)


def _is_selected(selector: Terms, group: CidrGroup) -> bool:
    """Whether a group has the required labels."""
    return all(
        requirement_holds(Requirement(term.key, term.operator, term.values), group.labels)
        for term in selector.terms
    )
