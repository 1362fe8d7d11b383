# SPDX-License-Identifier: Apache-2.0
"""Where Cilium decides otherwise than the text (semantics H): a warning, and an opaque rule."""

from collections.abc import Callable
from typing import Any

import pytest

from policyc.compiler.frontend import ObjectsSource, ReadOptions, read_policies
from policyc.compiler.frontend.cilium.entities import ENTITIES
from policyc.compiler.frontend.lowered import Profile
from policyc.compiler.frontend.read import PolicyInput
from policyc.ir.bounds import lower_rule, upper_rule
from policyc.ir.policy import ANY_PEER, Action, EndpointPeer, IcmpType, Policy, Rule
from policyc.ir.services import Kind

CIDR_GROUP = {
    "apiVersion": "cilium.io/v2",
    "kind": "CiliumCIDRGroup",
    "metadata": {"name": "g", "labels": {"role": "cdn"}},
    "spec": {"externalCIDRs": ["203.0.113.0/24"]},
}


def cilium(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "shop"}
    spec = {"endpointSelector": {}, **spec}
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumNetworkPolicy",
        "metadata": metadata,
        "spec": spec,
    }


def network_policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"podSelector": {}, **spec},
    }


def cluster_policy(**rule: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": "p"},
        "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}, **rule},
    }


def read(*objects: object, profile: Profile | None = Profile.CILIUM) -> PolicyInput:
    return read_policies([ObjectsSource("test", objects)], ReadOptions(profile=profile))


def departures(given: PolicyInput) -> list[str]:
    return [found.message for found in given.findings if found.code == "PC1607"]


def policy(given: PolicyInput) -> Policy:
    (found,) = (p for tier in given.policies.tiers for p in tier.policies)
    return found


def bounds(rule: Rule) -> tuple[Rule, Rule]:
    assert rule.opaque is not None
    return lower_rule(rule), upper_rule(rule)


TYPE_ZERO = cilium(ingress=[{"icmps": [{"fields": [{"type": 0}]}]}])
NO_RULES = cilium(ingress=[{}], enableDefaultDeny={"egress": True})
LEFT_OUT = network_policy(policyTypes=["Ingress"], egress=[{}])
BLOCK = network_policy(ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])
GROUPS = cilium(egress=[{"toCIDRSet": [{"cidrGroupSelector": {}}]}])
DENIED_BLOCK = cluster_policy(
    egress=[{"action": "Deny", "to": [{"networks": ["10.0.0.0/8"]}]}],
)
NEGATIVE = cluster_policy(
    ingress=[
        {
            "action": "Accept",
            "from": [
                {
                    "namespaces": {
                        "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]
                    }
                }
            ],
        }
    ],
)


@pytest.mark.parametrize(
    ("written", "clause"),
    [
        ([NO_RULES], "H2"),
        ([TYPE_ZERO], "H3, cilium#41304"),
        ([LEFT_OUT], "H4, cilium#48703"),
        ([BLOCK], "H5, cilium#19601"),
        ([DENIED_BLOCK], "H5, cilium#19601"),
        ([NEGATIVE], "H6"),
        ([GROUPS, CIDR_GROUP], "H8"),
        ([cilium(egress=[{"toEndpoints": [{"matchLabels": {"reserved:world": ""}}]}])], "H9"),
        ([cilium(egress=[{"toNodes": [{"matchLabels": {"a": "b"}}]}])], "H9"),
    ],
)
def test_each_departure_gives_a_warning_with_its_reference(
    written: list[object], clause: str
) -> None:
    (message,) = departures(read(*written))
    assert f"({clause}" in message


@pytest.mark.parametrize("entity", ["host", "cluster", "all"])
def test_a_denied_host_is_denied_as_cilium_does(entity: str) -> None:
    """The rule is about the pod's own node as well (A22); no other rule is."""
    entities, to = [{"fromEntities": [entity]}], [{"toEntities": [entity]}]
    for written, wanted in (
        (cilium(ingressDeny=entities), Action.DENY_OWN_NODE),
        (cilium(ingressDeny=[{"toPorts": [{"ports": [{"port": "80"}]}]}]), Action.DENY_OWN_NODE),
        (cilium(ingressDeny=[{"fromCIDR": ["0.0.0.0/0"]}]), Action.DENY),
        (cilium(ingress=entities), Action.ALLOW),
        (cilium(egressDeny=to), Action.DENY),
    ):
        found = read(written)
        assert departures(found) == []
        (policy,) = [p for tier in found.policies.tiers for p in tier.policies]
        assert [rule.action for rule in (*policy.ingress, *policy.egress)] == [wanted]


@pytest.mark.parametrize("written", [LEFT_OUT, BLOCK, DENIED_BLOCK, NEGATIVE])
@pytest.mark.parametrize("profile", [Profile.KUBERNETES, None])
def test_without_cilium_policies_there_are_no_departures(
    written: object, profile: Profile | None
) -> None:
    given = read(written, profile=profile)
    assert departures(given) == []
    assert all(not r.opaque for r in (*policy(given).ingress, *policy(given).egress))


def test_a_default_deny_without_rules_may_not_isolate() -> None:
    found = policy(read(NO_RULES))
    (rule,) = found.egress
    assert rule.peers == (), "it is enforced as the text says"
    lower, upper = bounds(rule)
    assert (lower.peers, upper.peers) == ((), (ANY_PEER,))


def test_type_zero_is_one_type_and_may_be_all() -> None:
    (rule,) = policy(read(TYPE_ZERO)).ingress
    assert rule.ports == (IcmpType(Kind.ICMP, 0),)
    lower, upper = bounds(rule)
    assert (lower.ports, upper.ports) == (rule.ports, (IcmpType(Kind.ICMP),))


def test_omitted_egress_is_an_opaque_rule() -> None:
    (rule,) = policy(read(LEFT_OUT)).egress
    assert rule.peers == ()
    lower, upper = bounds(rule)
    assert (lower.peers, upper.peers) == ((), (ANY_PEER,))


def test_a_deny_of_a_block_may_not_apply_to_pods() -> None:
    (rule,) = policy(read(DENIED_BLOCK)).egress
    lower, upper = bounds(rule)
    assert lower.peers == rule.peers, "it is enforced as the text says"
    assert upper.peers != rule.peers


def test_an_allow_of_a_block_is_not_opaque() -> None:
    """Cilium allows less, and no upper bound depends on it."""
    (rule,) = policy(read(BLOCK)).ingress
    assert rule.opaque is None


@pytest.mark.parametrize(
    ("selector", "widest"),
    [
        ({}, ANY_PEER),
        (
            {"matchExpressions": [{"key": "role", "operator": "NotIn", "values": ["x"]}]},
            ENTITIES["world"],
        ),
    ],
)
def test_groups_may_be_everyone_or_the_world(selector: object, widest: object) -> None:
    written = cilium(egress=[{"toCIDRSet": [{"cidrGroupSelector": selector}]}])
    (rule,) = policy(read(written, CIDR_GROUP)).egress
    lower, upper = bounds(rule)
    assert lower.peers == rule.peers
    assert upper.peers == (*rule.peers, widest)


def test_negated_namespace_terms_may_select_the_world() -> None:
    (rule,) = policy(read(NEGATIVE)).ingress
    lower, upper = bounds(rule)
    assert lower.peers == rule.peers
    assert upper.peers == (*rule.peers, ENTITIES["world"])


def baseline(**rule: Any) -> dict[str, Any]:
    written = cluster_policy(ingress=[rule])
    written["spec"] |= {"tier": "Baseline", "subject": {"pods": {"podSelector": {}}}}
    written["spec"]["subject"]["pods"]["namespaceSelector"] = {}
    return written


def test_isolation_may_be_overridden_by_the_baseline() -> None:
    isolating = network_policy(policyTypes=["Ingress"])
    accept = baseline(action="Accept", **{"from": [{"namespaces": {}}]})
    other = network_policy(policyTypes=["Ingress"])
    other["metadata"] = {"name": "q", "namespace": "shop"}
    assert len(departures(read(isolating, other, accept))) == 1, "once for each rule"
    given = read(isolating, accept)
    assert ["(H7" in message for message in departures(given)] == [True]
    (tier,) = (tier for tier in given.policies.tiers if tier.name == "networkpolicy")
    (rule,) = tier.policies[0].ingress
    assert rule.peers == (), "it is enforced as the text says"
    lower, upper = bounds(rule)
    assert (lower.peers, len(upper.peers)) == ((), 1)
    assert isinstance(upper.own, EndpointPeer)


def test_a_baseline_that_denies_overrides_nothing() -> None:
    deny = baseline(action="Deny", **{"from": [{"namespaces": {}}]})
    assert departures(read(network_policy(policyTypes=["Ingress"]), deny)) == []


PLAIN: list[Callable[[], dict[str, Any]]] = [
    lambda: cilium(ingress=[{"icmps": [{"fields": [{"type": 8}]}]}]),
    lambda: network_policy(policyTypes=["Ingress", "Egress"], egress=[{}]),
    lambda: network_policy(ingress=[{"from": [{"ipBlock": {"cidr": "203.0.113.0/25"}}]}]),
    lambda: network_policy(
        ingress=[
            {
                "from": [
                    {
                        "ipBlock": {
                            "cidr": "0.0.0.0/0",
                            "except": [
                                "10.0.0.0/8",
                                "172.16.0.0/12",
                                "192.168.0.0/16",
                                "100.64.0.0/10",
                            ],
                        }
                    }
                ]
            }
        ]
    ),
]


@pytest.mark.parametrize("written", PLAIN)
def test_agreement_with_cilium_gives_no_warning(written: Callable[[], dict[str, Any]]) -> None:
    given = read(written())
    assert departures(given) == []
