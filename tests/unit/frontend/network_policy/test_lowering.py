# SPDX-License-Identifier: Apache-2.0
"""A NetworkPolicy becomes Policy IR with the places of its rules, in canonical order."""

from pathlib import Path

from policyc.compiler.frontend import PathSource, read_policies
from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    Action,
    AddressPeer,
    AnyPeer,
    AnyService,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    LabelSelector,
    NamedPort,
    Operator,
    PortRange,
    Requirement,
    TierMode,
)
from policyc.ir.services import Protocol

TEXT = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: web
  namespace: shop
spec:
  podSelector:
    matchLabels: {tier: front, app: web}
    matchExpressions:
    - {key: app, operator: NotIn, values: [z, b, b]}
  policyTypes: [Ingress, Egress]
  ingress:
  - {}
  - from:
    - podSelector: {}
    - namespaceSelector: {matchLabels: {team: blue}}
      podSelector: {matchLabels: {app: x}}
    - ipBlock: {cidr: 10.0.0.0/8, except: [10.2.0.0/16, 10.1.0.0/16]}
    ports:
    - protocol: UDP
    - port: 80
      endPort: 90
    - port: http
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: z, namespace: blog}}
"""


def test_a_policy_is_lowered(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(TEXT)
    (tier,) = read_policies([PathSource(str(path))]).policies.tiers
    assert (tier.name, tier.mode, tier.unmatched) == (
        NETWORK_POLICY_TIER,
        TierMode.DENY_WINS,
        Action.DENY,
    )
    blog, web = tier.policies
    assert blog.qualified_name == "blog/z"
    assert blog.isolates == {Direction.INGRESS}
    assert web.kind == "NetworkPolicy"
    assert web.isolates == {Direction.INGRESS, Direction.EGRESS}
    assert str(web.origin.span) == f"{path}:4:9"
    assert web.subject == EndpointSelector(
        "shop",
        labels=LabelSelector(
            (
                Requirement("app", Operator.IN, ("web",)),
                Requirement("app", Operator.NOT_IN, ("b", "z")),
                Requirement("tier", Operator.IN, ("front",)),
            )
        ),
    )
    first, second = web.ingress
    assert (first.peers, first.ports) == ((AnyPeer(),), (AnyService(),))
    assert (first.origin.path, first.origin.span.line) == ("spec.ingress[0]", 13)
    assert (second.origin.path, str(second.origin.span)) == ("spec.ingress[1]", f"{path}:14:5")
    own, both, block = second.peers
    assert own == EndpointPeer(EndpointSelector("shop"))
    assert isinstance(both, EndpointPeer) and both.selector.namespace is None
    assert isinstance(block, AddressPeer)
    assert [str(hole) for hole in block.excepts] == ["10.1.0.0/16", "10.2.0.0/16"]
    assert second.ports == (
        EveryPort(Protocol.UDP),
        PortRange(Protocol.TCP, 80, 90),
        NamedPort(Protocol.TCP, "http"),
    )
