# SPDX-License-Identifier: Apache-2.0
"""A Calico rule as typed values: decoded, with the mistakes of each field reported (D43)."""

from dataclasses import dataclass, field

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.scalars import (
    NOT_SELECTOR,
    Selector,
    decode_expression,
)
from policyc.compiler.frontend.calico.values import (
    Net,
    Port,
    choice,
    is_blank,
    nets,
    ports,
    protocol,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import subdomain_problems
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
)

ACTIONS = ("Allow", "Deny", "Log", "Pass")
_RULE_FIELDS = frozenset(
    {
        *("action", "ipVersion", "protocol", "notProtocol", "icmp", "notICMP"),
        *("source", "destination", "http", "metadata"),
    }
)
_ENTITY_FIELDS = frozenset(
    {
        *("nets", "notNets", "ports", "notPorts", "services", "serviceAccounts"),
        *("selector", "notSelector", "namespaceSelector"),
    }
)
_HTTP_FIELDS = frozenset({"methods", "paths"})
_IP_VERSIONS = (4, 6)


@dataclass(frozen=True, slots=True)
class Icmp:
    """ICMPFields; None for a part that was not given."""

    type: int | None
    code: int | None
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class ServiceMatch:
    """ServiceMatch; `namespace` is empty if it was not given."""

    name: str
    namespace: str
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class ServiceAccountMatch:
    """ServiceAccountMatch: the names and the selector both must hold."""

    names: tuple[str, ...]
    selector: Selector | None


@dataclass(frozen=True, slots=True)
class Entity:
    """EntityRule: the conditions of a rule on its source or its destination."""

    nets: tuple[Net, ...]
    not_nets: tuple[Net, ...]
    selector: Selector | None
    not_selector: Selector | None
    namespace_selector: Selector | None
    services: ServiceMatch | None
    service_accounts: ServiceAccountMatch | None
    ports: tuple[Port, ...]
    not_ports: tuple[Port, ...]
    node: Mapping = field(compare=False)
    path: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule; protocols are numbers."""

    action: str
    ip_version: int | None
    protocol: int | None
    not_protocol: int | None
    icmp: Icmp | None
    not_icmp: Icmp | None
    source: Entity
    destination: Entity
    node: Mapping = field(compare=False)
    path: str = field(compare=False)

    @property
    def has_http(self) -> bool:
        """Whether it has conditions on HTTP requests."""
        return self.node.get("http") is not None


def decode_rules(decoder: Decoder, spec: Mapping, name: str) -> tuple[Rule, ...]:
    """The rules of one direction; an item that is not a rule is reported and left out."""
    read = (_rule(decoder, item, where) for item, where in decoder.items(spec, name, "spec"))
    return tuple(rule for rule in read if rule is not None)


def _rule(decoder: Decoder, item: Node, path: str) -> Rule | None:
    node = decoder.mapping(item, path, _RULE_FIELDS)
    if node is None:
        return None
    action = choice(decoder, node, "action", path, ACTIONS)
    if is_blank(node, "action"):
        where = f"{path}.action"
        finding = codes.REQUIRED.at(node.span_of("action"), where, where=where)
        decoder.report.add(finding.help("Allow, Deny, Log or Pass"))
    decoder.object(node, "http", path, _HTTP_FIELDS)
    metadata = decoder.object(node, "metadata", path, frozenset({"annotations"}))
    if metadata is not None:
        decoder.string_map(metadata, "annotations", f"{path}.metadata")
    return Rule(
        action or "Deny",
        _ip_version(decoder, node, path),
        protocol(decoder, node, "protocol", path),
        protocol(decoder, node, "notProtocol", path),
        _icmp(decoder, node, "icmp", path),
        _icmp(decoder, node, "notICMP", path),
        _entity(decoder, node, "source", path),
        _entity(decoder, node, "destination", path),
        node,
        path,
    )


def _ip_version(decoder: Decoder, node: Mapping, path: str) -> int | None:
    value = decoder.integer(node, "ipVersion", path)
    if value is None or value in _IP_VERSIONS:
        return value
    where = f"{path}.ipVersion"
    span = node.span_of("ipVersion")
    decoder.report.add(codes.CHOICE.at(span, where, where=where, value=value, choices="4, 6"))
    return None


def _icmp(decoder: Decoder, parent: Mapping, name: str, path: str) -> Icmp | None:
    node = decoder.object(parent, name, path, frozenset({"type", "code"}))
    if node is None:
        return None
    path = f"{path}.{name}"
    found = Icmp(
        _bounded(decoder, node, "type", path, 254), _bounded(decoder, node, "code", path, 255), node
    )
    if found.code is not None and node.get("type") is None:
        where = f"{path}.code"
        problem = "an ICMP code needs a type"
        decoder.report.add(codes.ICMP.at(node.span_of("code"), where, where=where, problem=problem))
    return found


def _bounded(decoder: Decoder, node: Mapping, name: str, path: str, last: int) -> int | None:
    value = decoder.integer(node, name, path)
    if value is None or 0 <= value <= last:
        return value
    where = f"{path}.{name}"
    problem = f"{value} is not in 0 to {last}"
    decoder.report.add(codes.ICMP.at(node.span_of(name), where, where=where, problem=problem))
    return None


def _entity(decoder: Decoder, parent: Mapping, name: str, path: str) -> Entity:
    node = decoder.object(parent, name, path, _ENTITY_FIELDS)
    if node is None:
        node = Mapping(parent.file, parent.line, parent.column)
    path = f"{path}.{name}"
    return Entity(
        nets(decoder, node, "nets", path),
        nets(decoder, node, "notNets", path),
        decode_expression(decoder, node, "selector", path),
        decode_expression(decoder, node, NOT_SELECTOR, path),
        decode_expression(decoder, node, "namespaceSelector", path, may_be_global=True),
        _services(decoder, node, path),
        _service_accounts(decoder, node, path),
        ports(decoder, node, "ports", path),
        ports(decoder, node, "notPorts", path),
        node,
        path,
    )


def _services(decoder: Decoder, entity: Mapping, path: str) -> ServiceMatch | None:
    node = decoder.object(entity, "services", path, frozenset({"name", "namespace"}))
    if node is None:
        return None
    path = f"{path}.services"
    name = decoder.string(node, "name", path)
    namespace = decoder.string(node, "namespace", path)
    for field_name, value in (("name", name), ("namespace", namespace)):
        for problem in subdomain_problems(value) if value else ():
            where = f"{path}.{field_name}"
            decoder.report.add(
                codes.NAME.at(
                    node.span_of(field_name),
                    where,
                    where=where,
                    value=quoted(value),
                    problem=problem,
                )
            )
    if is_blank(node, "name"):
        where = f"{path}.name"
        finding = codes.REQUIRED.at(node.span_of("name"), where, where=where)
        decoder.report.add(finding.help("name the Service"))
    return ServiceMatch(name or "", namespace or "", node)


def _service_accounts(decoder: Decoder, entity: Mapping, path: str) -> ServiceAccountMatch | None:
    node = decoder.object(entity, "serviceAccounts", path, frozenset({"names", "selector"}))
    if node is None:
        return None
    path = f"{path}.serviceAccounts"
    return ServiceAccountMatch(
        decoder.strings(node, "names", path), decode_expression(decoder, node, "selector", path)
    )
