# SPDX-License-Identifier: Apache-2.0
"""What each construct of the rule language is in the IR (semantics G48 to G57)."""

from ipaddress import ip_network
from typing import Any

import pytest

from policyc.compiler.frontend import ReadOptions, read_scenario
from policyc.compiler.frontend.lowered import Unsupported
from policyc.grammar.icmp_types import ICMP_TYPES, ICMPV6_TYPES
from policyc.grammar.tokens import ACTIONS
from policyc.ir.errors import InputError
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    EVERY_ENDPOINT,
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    EveryPort,
    IcmpType,
    LabelSelector,
    Limit,
    NamedPort,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Peer,
    Policy,
    PortRange,
    Ports,
    ProtocolNumber,
    Requirement,
    Rule,
    Where,
)
from policyc.ir.services import Kind, Protocol

DEFAULTS = ReadOptions()
TCP, UDP, SCTP = Protocol.TCP, Protocol.UDP, Protocol.SCTP


def extended(namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    given = {"tier": 5, "appliesTo": "all", "rules": "ingress:\n"} | spec
    metadata = {"name": "p"} if namespace is None else {"name": "p", "namespace": namespace}
    return {
        "apiVersion": "policyc.dev/v1alpha1",
        "kind": "ExtendedPolicy",
        "metadata": metadata,
        "spec": given,
    }


def service(selector: dict[str, str] | None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "n"},
        "spec": {"selector": selector, "ports": [{"port": 80}], **spec},
    }


def policy(*objects: dict[str, Any], options: ReadOptions = DEFAULTS) -> Policy:
    policies, _ = read_scenario("x", objects, options)
    return next(tier.policies[0] for tier in policies.tiers if tier.policies)


def rule(text: str, *others: dict[str, Any], namespace: str | None = None) -> Rule:
    read = policy(extended(namespace, rules=f"ingress:\n  {text}\n"), *others)
    (found,) = read.ingress
    return found


def pods(expression: str, namespace: str | None = None) -> EndpointSelector:
    (peer,) = rule(f"allow from {expression}", namespace=namespace).peers
    assert isinstance(peer, EndpointPeer)
    return peer.selector


def is_in(key: str, *values: str, operator: Operator = Operator.IN) -> Requirement:
    return Requirement(key, operator, values)


def labels(*requirements: Requirement) -> LabelSelector:
    return LabelSelector(requirements)


def test_of(attribute: Attribute, operator: Operator, *values: str, key: str = "") -> Condition:
    return AttributeTest(attribute, Requirement(key, operator, values))


test_of.__test__ = False  # type: ignore[attr-defined]

CONJUNCTIONS = [
    ("all", EVERY_ENDPOINT),
    ('pod.a == "x"', EndpointSelector(labels=labels(is_in("a", "x")))),
    ('pod["x/y"] == "v"', EndpointSelector(labels=labels(is_in("x/y", "v")))),
    ('pod.x/y == "v"', EndpointSelector(labels=labels(is_in("x/y", "v")))),
    (
        'pod.b exists && ns.e in {"y", "x"} && (pod.a != "x" && all)',
        EndpointSelector(
            namespace_labels=labels(is_in("e", "x", "y")),
            labels=labels(
                is_in("a", "x", operator=Operator.NOT_IN), is_in("b", operator=Operator.EXISTS)
            ),
        ),
    ),
    (
        'namespace == "shop" && pod.a not in {"x"}',
        EndpointSelector("shop", labels=labels(is_in("a", "x", operator=Operator.NOT_IN))),
    ),
]


@pytest.mark.parametrize(("text", "selector"), CONJUNCTIONS)
def test_conjunctions_over_labels_are_label_selectors(
    text: str, selector: EndpointSelector
) -> None:
    assert pods(text) == selector


A = test_of(Attribute.LABEL, Operator.EXISTS, key="a")
CONDITIONS = [
    ("!(pod.a exists)", Not(A)),
    ("pod.a exists || all", OneOf((A, ALWAYS))),
    (
        'pod.a starts with "x"',
        test_of(Attribute.LABEL, Operator.STARTS_WITH, "x", key="a"),
    ),
    ('ns.a ends with "x"', test_of(Attribute.NAMESPACE_LABEL, Operator.ENDS_WITH, "x", key="a")),
    ('node.a contains "x"', test_of(Attribute.NODE_LABEL, Operator.CONTAINS, "x", key="a")),
    ('node == "n"', test_of(Attribute.NODE, Operator.IN, "n")),
    ('namespace != "n"', test_of(Attribute.NAMESPACE, Operator.NOT_IN, "n")),
    ('namespace in {"n", "m"}', test_of(Attribute.NAMESPACE, Operator.IN, "m", "n")),
    ('serviceaccount == "s"', test_of(Attribute.SERVICE_ACCOUNT, Operator.IN, "s")),
    (
        "serviceaccount.a exists",
        test_of(Attribute.SERVICE_ACCOUNT_LABEL, Operator.EXISTS, key="a"),
    ),
    (
        'namespace == "n" && namespace == "m"',
        AllOf(
            (
                test_of(Attribute.NAMESPACE, Operator.IN, "n"),
                test_of(Attribute.NAMESPACE, Operator.IN, "m"),
            )
        ),
    ),
]


@pytest.mark.parametrize(("text", "condition"), CONDITIONS)
def test_everything_else_is_a_condition(text: str, condition: Condition) -> None:
    assert pods(text) == EndpointSelector(condition=condition)


IN_A_NAMESPACE = [
    ("all", EndpointSelector("shop")),
    ('pod.a == "x"', EndpointSelector("shop", labels=labels(is_in("a", "x")))),
    ("pod.a exists || all", EndpointSelector("shop", condition=OneOf((A, ALWAYS)))),
    ('namespace == "lab"', EndpointSelector("lab")),
    ("!has(ns.x) && all", None),
]


@pytest.mark.parametrize(("text", "selector"), IN_A_NAMESPACE)
def test_in_a_namespace_expressions_mean_it_unless_they_say(
    text: str, selector: EndpointSelector | None
) -> None:
    found = pods(text, namespace="shop")
    if selector is None:
        assert found.namespace is None
    else:
        assert found == selector


def test_subjects_of_a_namespaced_policy_are_in_its_namespace() -> None:
    read = policy(extended("shop", appliesTo='namespace == "lab"'))
    assert read.subject.namespace == "shop"
    assert read.subject.condition == test_of(Attribute.NAMESPACE, Operator.IN, "lab")
    assert policy(extended("shop", appliesTo='namespace == "shop"')).subject == EndpointSelector(
        "shop"
    )
    assert read.title == "ExtendedPolicy.policyc.dev shop/p"


SERVICES: list[tuple[str, tuple[Ports, ...]]] = [
    ("", (AnyService(),)),
    ("any", (AnyService(),)),
    ("tcp", (EveryPort(TCP),)),
    ("udp/any", (EveryPort(UDP),)),
    ("sctp/9", (PortRange(SCTP, 9, 9),)),
    ("tcp/1-65535", (PortRange(TCP, 1, 65535),)),
    ("udp/dns", (NamedPort(UDP, "dns"),)),
    ("tcp/8080-http", (NamedPort(TCP, "8080-http"),)),
    ("protocol 0", (ProtocolNumber(0),)),
    ("icmp", (IcmpType(Kind.ICMP), IcmpType(Kind.ICMPV6))),
    ("icmpv6", (IcmpType(Kind.ICMPV6),)),
    ("icmp echo-request", (IcmpType(Kind.ICMP, 8), IcmpType(Kind.ICMPV6, 128))),
    ("icmp timestamp-reply", (IcmpType(Kind.ICMP, 14),)),
    ("icmp packet-too-big", (IcmpType(Kind.ICMPV6, 2),)),
    ("icmp 8", (IcmpType(Kind.ICMP, 8),)),
    ("icmp 3 code 4", (IcmpType(Kind.ICMP, 3, 4),)),
    ("icmp destination-unreachable code 3", (IcmpType(Kind.ICMP, 3, 3),)),
    ("icmpv6 1 code 4", (IcmpType(Kind.ICMPV6, 1, 4),)),
    ("icmpv6 echo-reply", (IcmpType(Kind.ICMPV6, 129),)),
    ("tcp/80, udp/80, tcp/80", (PortRange(TCP, 80, 80), PortRange(UDP, 80, 80))),
]


@pytest.mark.parametrize(("text", "ports"), SERVICES, ids=[text for text, _ in SERVICES])
def test_services(text: str, ports: tuple[Ports, ...]) -> None:
    assert rule(f"allow {text}").ports == ports


def test_icmp_types_of_both_families_are_numbers_of_a_byte() -> None:
    for name, number in (*ICMP_TYPES.items(), *ICMPV6_TYPES.items()):
        assert 0 <= number <= 255
        assert rule(f"allow icmp {name}").ports


EVERYONE = (EndpointPeer(EVERY_ENDPOINT), NodePeer())
ZONE = test_of(Attribute.NODE_LABEL, Operator.IN, "a", key="zone")
PEERS: list[tuple[str, tuple[Peer, ...]]] = [
    ("", (ANY_PEER,)),
    ("from any", (ANY_PEER,)),
    ("from 10.0.0.1", (AddressPeer(ip_network("10.0.0.1/32")),)),
    ("from ::1", (AddressPeer(ip_network("::1/128")),)),
    (
        "from 10.0.0.0/8 except {10.2.0.0/16, 10.1.0.0/16, 10.1.0.0/16}",
        (
            AddressPeer(
                ip_network("10.0.0.0/8"), (ip_network("10.1.0.0/16"), ip_network("10.2.0.0/16"))
            ),
        ),
    ),
    ("from 2001:DB8::/32", (AddressPeer(ip_network("2001:db8::/32")),)),
    ("from entity world", (Not(OneOf(EVERYONE)),)),
    ("from entity cluster", (OneOf(EVERYONE),)),
    ("from entity host", (NodePeer(where=Where.LOCAL),)),
    ("from entity remote-node", (NodePeer(where=Where.REMOTE),)),
    ("from node all", (NodePeer(),)),
    ('from node node.zone == "a"', (NodePeer(ZONE),)),
    (
        "from all or any, 10.0.0.1",
        (EndpointPeer(EVERY_ENDPOINT), ANY_PEER, AddressPeer(ip_network("10.0.0.1/32"))),
    ),
    (
        "from service n/s",
        (EndpointPeer(EndpointSelector("n", labels=labels(is_in("a", "x"), is_in("b", "y")))),),
    ),
]


@pytest.mark.parametrize(("text", "peers"), PEERS, ids=[text for text, _ in PEERS])
def test_peers(text: str, peers: tuple[Peer, ...]) -> None:
    assert rule(f"allow any {text}", service({"b": "y", "a": "x"})).peers == peers


def test_modifiers() -> None:
    assert rule("allow any limit 5/s").limit == Limit(5, 5)
    assert rule("allow any limit 5/s burst 9").limit == Limit(5, 9)
    found = rule('allow any as "it\'s" log')
    assert (found.name, found.log, found.limit) == ("it's", True, None)
    assert not rule("allow any").log


@pytest.mark.parametrize("action", [each for each in Action if each.value in ACTIONS])
def test_actions(action: Action) -> None:
    assert rule(action.value).action is action


def test_sections_isolate_and_their_rules_know_their_place() -> None:
    read = policy(extended(rules="egress:\n  deny any\n  pass\n"))
    assert read.isolates == {Direction.EGRESS}
    assert read.ingress == ()
    assert [r.origin.path for r in read.egress] == ["spec.rules.egress[0]", "spec.rules.egress[1]"]
    assert policy(extended(rules="ingress:\negress:\n")).isolates == set(Direction)


SELECTORLESS = [
    service(None),
    service({"a": "x"}, type="ExternalName", externalName="example.com"),
]


@pytest.mark.parametrize("without_pods", SELECTORLESS)
def test_a_service_without_a_selector_is_refused_or_closed(without_pods: dict[str, Any]) -> None:
    text = "ingress:\n  allow from service n/s, 10.0.0.1\n  deny from service n/s\n"
    objects = [extended(rules=text), without_pods]
    with pytest.raises(InputError) as wrong:
        policy(*objects)
    assert [finding.code for finding in wrong.value.findings] == ["PC1604", "PC1604"]
    read = policy(*objects, options=ReadOptions(unsupported=Unsupported.DENY))
    allow, deny = read.ingress
    assert allow.peers == (AddressPeer(ip_network("10.0.0.1/32")),)
    assert (deny.action, deny.peers, deny.ports) == (Action.DENY, (ANY_PEER,), (AnyService(),))


def test_a_service_s_name_is_corrected() -> None:
    other = service({"a": "x"})
    other["metadata"] = {"name": "kube-dns", "namespace": "kube-system"}
    for text in ("kube-system/kubedns", "default/kube-dns"):
        with pytest.raises(InputError) as wrong:
            rule(f"allow from service {text}", other)
        (finding,) = wrong.value.findings
        assert finding.code == "PC1417"
        assert finding.hint == "did you mean `kube-system/kube-dns`?"


def test_tiers_with_long_numbers_have_names_of_their_own() -> None:
    first, second = (extended(tier=tier) for tier in (10_000_001, 10_000_002))
    second["metadata"] = {"name": "q"}
    policies, _ = read_scenario("x", [first, second])
    names = [tier.name for tier in policies.tiers if tier.policies]
    assert names == ["extended-10000001", "extended-10000002"]


def test_a_peer_in_a_block_must_match_peer_and_block() -> None:
    block = AddressPeer(ip_network("10.0.0.0/8"), (ip_network("10.9.0.0/16"),))
    read = rule("allow from entity world in 10.0.0.0/8 except 10.9.0.0/16, entity host in ::/0")
    world, host = read.peers
    assert world == AllOf((Not(OneOf((EndpointPeer(EVERY_ENDPOINT), NodePeer()))), block))
    assert host == AllOf((NodePeer(where=Where.LOCAL), AddressPeer(ip_network("::/0"))))
    (of_pods,) = rule("allow from pod.a exists in 10.0.0.0/8", namespace="shop").peers
    labelled = EndpointSelector("shop", labels=labels(is_in("a", operator=Operator.EXISTS)))
    assert of_pods == AllOf((EndpointPeer(labelled), AddressPeer(ip_network("10.0.0.0/8"))))


def test_entities_of_nodes_may_be_narrowed() -> None:
    zone = test_of(Attribute.NODE_LABEL, Operator.IN, "a", key="zone")
    (peer,) = rule('allow from entity remote-node with node.zone == "a"').peers
    assert peer == NodePeer(zone, Where.REMOTE)
    (peer,) = rule('allow from entity host with node.zone == "a" in ::/0').peers
    assert peer == AllOf((NodePeer(zone, Where.LOCAL), AddressPeer(ip_network("::/0"))))


def test_services_may_be_taken_out() -> None:
    read = rule("allow any except {tcp/80, udp/dns} from any")
    assert (read.ports, read.except_ports) == (
        (AnyService(),),
        (PortRange(TCP, 80, 80), NamedPort(UDP, "dns")),
    )
    assert rule("deny tcp, udp except tcp/22").except_ports == (PortRange(TCP, 22, 22),)
    assert rule("deny tcp").except_ports == ()


def test_the_second_side_of_a_rule_becomes_its_own_side() -> None:
    near, far = AddressPeer(ip_network("10.0.0.0/8")), AddressPeer(ip_network("192.0.2.0/24"))
    read = rule("allow tcp/80 from 192.0.2.0/24 to 10.0.0.0/8")
    assert (read.peers, read.own) == ((far,), near)
    several = rule("deny from any to 10.0.0.0/8, all").own
    assert several == OneOf((near, EndpointPeer(EVERY_ENDPOINT)))
    assert rule("deny from any").own == ANY_PEER
    found = policy(extended(rules="egress:\n  allow from 10.0.0.0/8 to 192.0.2.0/24\n"))
    assert (found.egress[0].peers, found.egress[0].own) == ((far,), near)
