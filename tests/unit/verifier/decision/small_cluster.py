# SPDX-License-Identifier: Apache-2.0
"""A small cluster and its policies, for mutations."""

from ipaddress import IPv4Address, ip_network

from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    Action,
    AddressPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    NamedPort,
    Operator,
    Policy,
    PolicySet,
    PortRange,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.services import Protocol
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import ContainerPort, Endpoint, Universe


def app(value: str) -> EndpointSelector:
    return EndpointSelector(
        "shop", labels=LabelSelector((Requirement("app", Operator.IN, (value,)),))
    )


def at(path: str, line: int) -> Origin:
    return Origin(Span("shop.yaml", line, 3), path)


def pod(name: str, number: int, *ports: ContainerPort) -> Endpoint:
    return Endpoint("shop", name, {"app": name}, {}, ports, (IPv4Address(f"10.0.0.{number}"),))


OFFICE = AddressPeer(ip_network("192.0.2.0/24"), (ip_network("192.0.2.64/26"),))

WEB_IN = Rule(
    Action.ALLOW,
    (EndpointPeer(app("gateway")), OFFICE),
    (PortRange(Protocol.TCP, 8000, 8100), NamedPort(Protocol.TCP, "metrics")),
    at("spec.ingress[0]", 10),
)

WEB_ALL = Rule(
    Action.ALLOW, (EndpointPeer(app("admin")),), (AnyService(),), at("spec.ingress[1]", 20)
)

WEB_OUT = Rule(
    Action.ALLOW,
    (EndpointPeer(app("db")),),
    (NamedPort(Protocol.TCP, "sql"),),
    at("spec.egress[0]", 30),
)

DB_IN = Rule(
    Action.ALLOW,
    (EndpointPeer(app("web")),),
    (PortRange(Protocol.TCP, 5432, 5432),),
    at("spec.ingress[0]", 50),
)

INGRESS, BOTH = frozenset({Direction.INGRESS}), frozenset(Direction)

DB = Policy("NetworkPolicy", "shop", "db", app("db"), INGRESS, (DB_IN,), (), at("", 40))

WEB = Policy(
    "NetworkPolicy", "shop", "web", app("web"), BOTH, (WEB_IN, WEB_ALL), (WEB_OUT,), at("", 1)
)

POLICIES = PolicySet((Tier(NETWORK_POLICY_TIER, TierMode.DENY_WINS, Action.DENY, (DB, WEB)),))

UNIVERSE = Universe(
    (
        pod("admin", 2),
        pod("db", 3, ContainerPort("sql", "TCP", 5432)),
        pod("gateway", 4),
        pod("other", 5),
        pod("web", 6, ContainerPort("metrics", "TCP", 9090)),
    )
)
