# SPDX-License-Identifier: Apache-2.0
"""The lab's expectations: probes between the pods of a cluster, and the reference semantics' answers.

No packet is sent here: `runtime/lab` compares these expectations with real traffic.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from typing import TypeGuard

from policyc.ir.policy import Action, Direction, PolicySet, PortRange
from policyc.ir.semantics import verdict
from policyc.ir.services import ICMP_NUMBER, ICMPV6_NUMBER, Service
from policyc.ir.services import Protocol as Transport
from policyc.ir.universe import FAMILIES, End, Endpoint, Flow, Universe, end_address
from policyc.runtime.lab.probes import Family, Outcome, Probe, Protocol
from policyc.runtime.lab.topology import EXTERNAL, LabEndpoint

UNDECLARED_PORT = 9
"""A port that no policy of a sane cluster opens by number: it shows `any port` rules."""
_OUTCOMES = {
    Action.ALLOW: Outcome.ALLOWED,
    Action.DENY: Outcome.DENIED,
    Action.DENY_OWN_NODE: Outcome.DENIED,
    Action.REJECT: Outcome.REFUSED,
}
ECHO_REQUEST = {4: Service(ICMP_NUMBER, 8 << 8), 6: Service(ICMPV6_NUMBER, 128 << 8)}


def lab_pods(universe: Universe) -> tuple[Endpoint, ...]:
    """The pods that the lab can have: live ones with an address, not in the host's network."""
    return tuple(
        replace(endpoint, node="", its_node=None)  # the lab has one node, which is not one of these
        for endpoint in universe.endpoints
        if endpoint.addresses and not endpoint.host_network
    )


def lab_endpoints(pods: tuple[Endpoint, ...]) -> list[LabEndpoint]:
    """The pods as the lab builds them."""
    return [LabEndpoint(p.namespace, p.name, *_both(p)) for p in pods]


def _both(pod: Endpoint) -> tuple[IPv4Address | None, IPv6Address | None]:
    v4, v6 = pod.address(4), pod.address(6)
    return (
        v4 if isinstance(v4, IPv4Address) else None,
        v6 if isinstance(v6, IPv6Address) else None,
    )


def metadata_of(pods: tuple[Endpoint, ...]) -> dict[str, Mapping[str, object]]:
    """Each pod's record for the endpoints file, without the fields that the lab sets."""
    return {
        pod.qualified_name: {
            "namespace": pod.namespace,
            "name": pod.name,
            "labels": dict(pod.labels),
            "namespaceLabels": dict(pod.namespace_labels),
            "ports": [
                {"name": p.name, "protocol": p.protocol, "port": p.number} for p in pod.ports
            ],
            "serviceAccount": pod.service_account,
            "serviceAccountLabels": dict(pod.service_account_labels),
        }
        for pod in pods
    }


def expected_matrix(policies: PolicySet, pods: tuple[Endpoint, ...]) -> dict[Probe, Outcome]:
    """Probe -> the result that the YAML requires, for all pairs of pods and the external client."""
    ends: dict[str, End | None] = {pod.qualified_name: pod for pod in pods}
    ends[EXTERNAL.name] = None
    outside = _ports_opened_to_addresses(policies)
    out: dict[Probe, Outcome] = {}
    for source, src in ends.items():
        for destination, dst in ends.items():
            if source == destination:
                continue
            for family in FAMILIES:
                a, b = _end(src, family), _end(dst, family)
                if not (_has_address(a, family) and _has_address(b, family)):
                    continue
                for protocol, port in _services(dst, outside):
                    probe = Probe(source, destination, _family(family), protocol, port)
                    flow = Flow(a, b, _service(protocol, port, family), family)
                    out[probe] = _OUTCOMES[verdict(policies, flow).action]
    return out


def _end(end: End | None, family: int) -> End | None:
    """The end of a flow; None stands for the external host, which may lack a family."""
    if end is not None:
        return end
    return EXTERNAL.ipv4 if family == 4 else EXTERNAL.ipv6


def _has_address(end: End | None, family: int) -> TypeGuard[End]:
    return end is not None and end_address(end, family) is not None


def _family(family: int) -> Family:
    return 4 if family == 4 else 6


def _services(
    destination: End | None, outside: tuple[tuple[Protocol, int], ...]
) -> Iterator[tuple[Protocol, int]]:
    """The services to try on a destination: its declared ports, an undeclared one, and ICMP."""
    if isinstance(destination, Endpoint):
        for port in destination.ports:
            if port.protocol in (Protocol.TCP, Protocol.UDP):
                yield Protocol(port.protocol), port.number
        yield Protocol.TCP, UNDECLARED_PORT
        yield Protocol.UDP, UNDECLARED_PORT
    else:
        yield from outside
    yield Protocol.ICMP, 0


def _ports_opened_to_addresses(policies: PolicySet) -> tuple[tuple[Protocol, int], ...]:
    """The first port of each range in egress rules, for the external host; at most eight."""
    found = {(Protocol.TCP, 443), (Protocol.UDP, UNDECLARED_PORT)}
    for tier in policies.tiers:
        for policy in tier.policies:
            for rule in policy.rules(Direction.EGRESS):
                for ports in rule.ports:
                    if isinstance(ports, PortRange) and ports.protocol is not Transport.SCTP:
                        found.add((Protocol(ports.protocol.name), ports.lo))
    return tuple(sorted(found)[:8])


def _service(protocol: Protocol, port: int, family: int) -> Service:
    if protocol is Protocol.ICMP:
        return ECHO_REQUEST[family]
    return Service(Transport[protocol.value].value, port)
