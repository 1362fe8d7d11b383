# SPDX-License-Identifier: Apache-2.0
"""The protocols, ports and Services of a Calico rule -> Policy IR (semantics D43)."""

from collections.abc import Iterator
from dataclasses import dataclass

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.rule import (
    Entity,
    Icmp,
    Rule,
    ServiceMatch,
)
from policyc.compiler.frontend.calico.values import (
    WITH_PORTS,
    Port,
)
from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.lowered import Surroundings
from policyc.compiler.frontend.spelling import nearest
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    AnyService,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    IcmpType,
    LabelSelector,
    NamedPort,
    Operator,
    PortRange,
    Ports,
    ProtocolNumber,
    Requirement,
)
from policyc.ir.services import ICMP_NUMBER, ICMPV6_NUMBER, Kind, Protocol

EVERY_SOURCE_PORT = IntervalSet.of([(0, 65535)])
_ICMP_KINDS = {ICMP_NUMBER: Kind.ICMP, ICMPV6_NUMBER: Kind.ICMPV6}


@dataclass(frozen=True, slots=True)
class Backends:
    """The endpoints behind a Service, and the ports that they serve it on."""

    peer: EndpointPeer
    ports: tuple[Ports, ...]


def rule_ports(rule: Rule, served: tuple[Ports, ...] | None) -> tuple[Ports, ...]:
    """The flow's required services; `served` are the ports of the Service named as destination."""
    if served is not None:
        return tuple(p for p in served if rule.protocol in (None, _number_of(p)))
    if rule.destination.ports and rule.protocol in WITH_PORTS:
        return tuple(_port(port, Protocol(rule.protocol)) for port in rule.destination.ports)
    if rule.protocol is None:
        return (AnyService(),)
    return (_whole(rule.protocol, rule.icmp),)


def excepted_ports(rule: Rule) -> tuple[Ports, ...]:
    """The excluded services: notProtocol, notICMP, notPorts."""
    found: list[Ports] = []
    if rule.not_protocol is not None:
        found.append(_whole(rule.not_protocol, None))
    if rule.not_icmp is not None and rule.not_icmp.type is not None:
        kinds = [_ICMP_KINDS.get(rule.protocol or 0)]
        for kind in kinds if kinds[0] is not None else _ICMP_KINDS.values():
            assert kind is not None
            found.append(IcmpType(kind, rule.not_icmp.type, rule.not_icmp.code))
    if rule.protocol in WITH_PORTS:
        found += (_port(port, Protocol(rule.protocol)) for port in rule.destination.not_ports)
    return tuple(found)


def source_ports(rule: Rule) -> IntervalSet | None:
    """The source ports that match; None if the rule has no condition on them."""
    source = rule.source
    if not (source.ports or source.not_ports):
        return None
    wanted = _interval(source.ports) if source.ports else EVERY_SOURCE_PORT
    return wanted - _interval(source.not_ports)


def named_source_ports(source: Entity) -> Iterator[UnsupportedPart]:
    """A name resolves on the destination (A19); a source port has no declared name."""
    for port in (*source.ports, *source.not_ports):
        if port.name:
            yield UnsupportedPart(port.span, port.path, "source ports by name", is_read=True)


def backends(
    match: ServiceMatch, entity: Entity, namespace: str, surroundings: Surroundings
) -> Backends | UnsupportedPart | None:
    """The backends of the Service that a rule names; None if there is none, which is reported."""
    key = (match.namespace or namespace, match.name)
    service = surroundings.services.get(key)
    where = f"{entity.path}.services"
    if service is None:
        _report_unknown(key, match, where, surroundings)
        return None
    if not service.selector:
        what = f"a Service without a selector ({key[0]}/{key[1]})"
        return UnsupportedPart(match.node.span, where, what)
    labels = LabelSelector(
        tuple(
            Requirement(name, Operator.IN, (value,))
            for name, value in sorted(service.selector.items())
        )
    )
    peer = EndpointPeer(EndpointSelector(key[0], labels=labels))
    return Backends(peer, _target_ports(service))


def _report_unknown(
    key: tuple[str, str], match: ServiceMatch, where: str, surroundings: Surroundings
) -> None:
    name = "/".join(key)
    finding = codes.SERVICE_UNKNOWN.at(match.node.span_of("name"), where, where=where, name=name)
    near = nearest(name, ["/".join(known) for known in surroundings.services])
    hint = f"did you mean `{near}`?" if near is not None else "give it with --cluster"
    surroundings.report.add(finding.help(hint))


def _target_ports(service: Service) -> tuple[Ports, ...]:
    found: list[Ports] = []
    for port in service.ports:
        protocol, target = Protocol[port.protocol], port.target_port
        if isinstance(target, str):
            found.append(NamedPort(protocol, target))
        else:
            found.append(PortRange(protocol, target, target))
    return tuple(dict.fromkeys(found))


def _number_of(ports: Ports) -> int | None:
    return ports.protocol.value if isinstance(ports, PortRange | NamedPort) else None


def _whole(number: int, icmp: Icmp | None) -> Ports:
    if number in WITH_PORTS:
        return EveryPort(Protocol(number))
    kind = _ICMP_KINDS.get(number)
    if kind is None:
        return ProtocolNumber(number)
    return IcmpType(kind) if icmp is None else IcmpType(kind, icmp.type, icmp.code)


def _port(port: Port, protocol: Protocol) -> Ports:
    if port.name:
        return NamedPort(protocol, port.name)
    return PortRange(protocol, port.lo, port.hi)


def _interval(ports: tuple[Port, ...]) -> IntervalSet:
    return IntervalSet.of((port.lo, port.hi) for port in ports if not port.name)
