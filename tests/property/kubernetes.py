# SPDX-License-Identifier: Apache-2.0
"""A random case as Kubernetes objects: from the Policy IR back to the API."""

from typing import Any, assert_never

from policyc.ir.policy import (
    AddressPeer,
    AnyPeer,
    AnyService,
    EndpointPeer,
    EveryPort,
    LabelSelector,
    NamedPort,
    Peer,
    Policy,
    PortRange,
    Ports,
    Requirement,
    Rule,
)
from policyc.ir.universe import Endpoint
from tests.property.cases import Case


def objects_of(case: Case) -> list[dict[str, Any]]:
    """Namespaces, pods and NetworkPolicies."""
    namespaces = {e.namespace: e.namespace_labels for e in case.universe.endpoints}
    return [
        *(
            _named("v1", "Namespace", name, labels=dict(labels))
            for name, labels in namespaces.items()
        ),
        *(pod_of(endpoint) for endpoint in case.universe.endpoints),
        *(policy_of(policy) for tier in case.policies.tiers for policy in tier.policies),
    ]


def _named(api_version: str, kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def pod_of(endpoint: Endpoint) -> dict[str, Any]:
    ports = [
        {"name": p.name, "protocol": p.protocol, "containerPort": p.number} for p in endpoint.ports
    ]
    return {
        **_named(
            "v1", "Pod", endpoint.name, namespace=endpoint.namespace, labels=dict(endpoint.labels)
        ),
        "spec": {"containers": [{"name": "c", "ports": ports}]},
        "status": {"phase": "Running", "podIPs": [{"ip": str(a)} for a in endpoint.addresses]},
    }


def policy_of(policy: Policy) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "podSelector": _selector(policy.subject.labels),
        "policyTypes": [
            d.value.capitalize() for d in sorted(policy.isolates, key=lambda d: d.value)
        ],
        "ingress": [_rule(rule, "from") for rule in policy.ingress],
        "egress": [_rule(rule, "to") for rule in policy.egress],
    }
    named = _named("networking.k8s.io/v1", policy.kind, policy.name, namespace=policy.namespace)
    return {**named, "spec": spec}


def _rule(rule: Rule, side: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if rule.peers != (AnyPeer(),):
        out[side] = [_peer(peer) for peer in rule.peers]
    if rule.ports != (AnyService(),):
        out["ports"] = [_port(port) for port in rule.ports]
    return out


def _peer(peer: Peer) -> dict[str, Any]:
    match peer:
        case AddressPeer(network, excepts):
            return {"ipBlock": {"cidr": str(network), "except": [str(hole) for hole in excepts]}}
        case EndpointPeer(selector):
            if selector.namespace is not None:
                return {"podSelector": _selector(selector.labels)}
            out = {"namespaceSelector": _selector(selector.namespace_labels)}
            if selector.labels.requirements:
                out["podSelector"] = _selector(selector.labels)
            return out
        case AnyPeer():
            raise AssertionError("any peer is the absence of the list")
        case _:
            assert_never(peer)


def _port(ports: Ports) -> dict[str, Any]:
    match ports:
        case EveryPort(protocol):
            return {"protocol": protocol.name}
        case NamedPort(protocol, name):
            return {"protocol": protocol.name, "port": name}
        case PortRange(protocol, lo, hi):
            return {"protocol": protocol.name, "port": lo, **({"endPort": hi} if hi != lo else {})}
        case AnyService():
            raise AssertionError("any service is the absence of the list")
        case _:
            assert_never(ports)


def _selector(selector: LabelSelector) -> dict[str, Any]:
    """Requirements as matchExpressions, which say all that matchLabels can."""
    return {"matchExpressions": [_expression(r) for r in selector.requirements]}


def _expression(requirement: Requirement) -> dict[str, Any]:
    out: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator.value}
    return {**out, "values": list(requirement.values)} if requirement.values else out
