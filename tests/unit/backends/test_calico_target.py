# SPDX-License-Identifier: Apache-2.0
"""The Calico target on what no single API gives: each refusal, names, orders, and selectors as text."""

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from policyc.backends.policies.calico import to_calico
from policyc.backends.policies.calico_selectors import (
    MOST_NESTING,
    namespace_selector,
    of_workloads,
    to_text,
)
from policyc.backends.policies.normal_form import UnsayableError
from policyc.backends.policies.target import InexpressibleError
from policyc.compiler.frontend.calico.selector import parse_expression
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import ANY_PEER, AddressPeer, EndpointPeer, Network, Peer
from policyc.ir.policy import (
    Action,
    AnyService,
    Direction,
    EveryPort,
    IcmpType,
    Limit,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    ProtocolNumber,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.selectors import (
    ALWAYS,
    NEVER,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointSelector,
    Not,
    OneOf,
    Operator,
    Requirement,
)
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin, Span

ORIGIN = Origin(Span("p.yaml", 1, 1), "spec.ingress[0]")
RULE = Rule(Action.ALLOW, (ANY_PEER,), (AnyService(),), ORIGIN)
BOTH = frozenset(Direction)


def asks(
    key: str,
    *values: str,
    operator: Operator = Operator.IN,
    attribute: Attribute = Attribute.LABEL,
) -> Condition:
    return AttributeTest(attribute, Requirement(key, operator, tuple(sorted(values))))


HAS_A = asks("a", operator=Operator.EXISTS)
NO_B = asks("b", operator=Operator.DOES_NOT_EXIST)
C = asks("c", "1")


def policy(*rules: Rule, subject: Condition = ALWAYS, name: str = "p") -> Policy:
    isolates = frozenset({Direction.INGRESS})
    selector = EndpointSelector(condition=subject)
    return Policy("Kind.example", "", name, selector, isolates, rules, (), ORIGIN)


def policies(*of: Policy, tier: str = "t", unmatched: Action = Action.DENY) -> PolicySet:
    return PolicySet((Tier(tier, TierMode.FIRST_MATCH, unmatched, of),))


def written(*rules: Rule) -> list[dict[str, Any]]:
    (_, found) = to_calico(policies(policy(*rules)))
    rules_found: list[dict[str, Any]] = found["spec"].get("ingress", [])
    return rules_found


def refused(given: PolicySet) -> list[str]:
    with pytest.raises(InexpressibleError) as failure:
        to_calico(given)
    return [each.why for each in failure.value.found]


def block(text: str, *holes: str) -> AddressPeer:
    return AddressPeer(ip_network(text), tuple(ip_network(hole) for hole in holes))


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (ALWAYS, "all()"),
        (NEVER, "!all()"),
        (Not(ALWAYS), "!all()"),
        (C, 'c == "1"'),
        (Not(C), 'c != "1"'),
        (asks("c", "1", "2"), 'c in {"1", "2"}'),
        (Not(asks("c", "1", "2")), 'c not in {"1", "2"}'),
        (asks("c"), "!all()"),
        (asks("c", operator=Operator.NOT_IN), "all()"),
        (AllOf((HAS_A, OneOf((NO_B, C)))), 'has(a) && (!has(b) || c == "1")'),
        (OneOf((AllOf((HAS_A, NO_B)), C)), 'has(a) && !has(b) || c == "1"'),
        (Not(AllOf((HAS_A, NO_B, ALWAYS))), "!has(a) || has(b)"),
        (AllOf((HAS_A, AllOf((HAS_A, C)))), 'has(a) && c == "1"'),
        (OneOf((HAS_A, Not(NEVER))), "all()"),
        (Not(asks("c", "x", operator=Operator.STARTS_WITH)), '!(c starts with "x")'),
        (asks("c", "x", operator=Operator.ENDS_WITH), 'c ends with "x"'),
        (asks("c", "x", operator=Operator.CONTAINS), 'c contains "x"'),
        (asks("c", 'a"b'), "c == 'a\"b'"),
        (asks("", "shop", attribute=Attribute.NAMESPACE), 'projectcalico.org/namespace == "shop"'),
        (asks("team", "x", attribute=Attribute.NAMESPACE_LABEL), 'pcns.team == "x"'),
        (asks("", "bot", attribute=Attribute.SERVICE_ACCOUNT),
         'projectcalico.org/serviceaccount == "bot"'),
        (asks("team", "x", attribute=Attribute.SERVICE_ACCOUNT_LABEL), 'pcsa.team == "x"'),
    ],
)  # fmt: skip
def test_conditions_become_calico_selectors(condition: Condition, text: str) -> None:
    assert to_text([condition], of_workloads) == text
    parse_expression(text)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (asks("projectcalico.org/namespace", "x"), "Calico sets the label"),
        (asks("pcns.team", "x"), "Calico sets the label"),
        (
            asks("projectcalico.org/name", "x", attribute=Attribute.NAMESPACE_LABEL),
            "Calico sets the label",
        ),
        (asks("a b", "x"), "no form for the label"),
        (asks("a", "\"'"), "both kinds of quotes"),
        (asks("", "n1", attribute=Attribute.NODE), "pods by node"),
        (asks("a", "x", attribute=Attribute.NODE_LABEL), "pods by node label"),
    ],
)
def test_conditions_that_no_selector_can_express(condition: Condition, why: str) -> None:
    with pytest.raises(UnsayableError, match=why):
        to_text([condition], of_workloads)


def test_a_selector_may_nest_as_deep_as_it_is_read() -> None:
    def nested(depth: int) -> Condition:
        found = C
        for at in range(depth):
            found = AllOf((asks(f"k{at}", "x"), OneOf((asks(f"l{at}", "y"), found))))
        return found

    parse_expression(to_text([nested(MOST_NESTING)], of_workloads))
    with pytest.raises(UnsayableError, match="nest"):
        to_text([nested(MOST_NESTING + 1)], of_workloads)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([], "all()"),
        ([asks("team", "x", attribute=Attribute.NAMESPACE_LABEL)], 'team == "x"'),
        ([Not(asks("team", "x", attribute=Attribute.NAMESPACE_LABEL))],
         'team != "x" && has(projectcalico.org/name)'),
        ([Not(asks("", "shop", attribute=Attribute.NAMESPACE)),
          asks("team", operator=Operator.EXISTS, attribute=Attribute.NAMESPACE_LABEL)],
         'projectcalico.org/name != "shop" && has(team)'),
    ],
)  # fmt: skip
def test_a_negative_namespace_selector_excludes_ends_without_a_namespace(
    parts: list[Condition], text: str
) -> None:
    assert namespace_selector(parts) == text


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (replace(RULE, action=Action.REJECT), "it rejects"),
        (replace(RULE, action=Action.AUDIT), "it audits"),
        (replace(RULE, limit=Limit(5, 5)), "it limits new connections"),
        (replace(RULE, ports=(ProtocolNumber(0),)), "IP protocol 0"),
        (replace(RULE, ports=(IcmpType(Kind.ICMP, 255),)), "ICMP type 255"),
        (replace(RULE, except_ports=(EveryPort(Protocol.TCP), EveryPort(Protocol.UDP))),
         "several protocols"),
        (replace(RULE, ports=(IcmpType(Kind.ICMP),),
                 except_ports=(IcmpType(Kind.ICMP, 3), IcmpType(Kind.ICMP, 8))), "several ICMP types"),
        (replace(RULE, ports=(NamedPort(Protocol.TCP, "http"),),
                 except_ports=(PortRange(Protocol.TCP, 0, 79),)), "port 0"),
        *((replace(RULE, ports=(NamedPort(Protocol.TCP, name),)), "port by the name")
          for name in ("-1", "80", "1:3", "A_b c", "http-", "a--b", "a" * 16)),
        (replace(RULE, except_ports=(NamedPort(Protocol.TCP, "80"),)), "port by the name"),
        (replace(RULE, peers=(block("::ffff:10.0.0.0/104"),)), "IPv4-mapped"),
    ],
)  # fmt: skip
def test_rules_that_calico_has_no_words_for(rule: Rule, why: str) -> None:
    (found,) = refused(policies(policy(rule)))
    assert why in found


@pytest.mark.parametrize("name", ["http", "8080-tcp", "a", "a" * 15])
def test_a_port_that_a_pod_can_have_is_written_by_its_name(name: str) -> None:
    (found,) = written(replace(RULE, ports=(NamedPort(Protocol.TCP, name),)))
    assert found["destination"] == {"ports": [name]}


def test_every_rule_at_fault_is_named_and_each_once() -> None:
    rejects = replace(RULE, action=Action.REJECT)
    given = Tier(
        "t", TierMode.DENY_WINS, Action.PASS, (policy(rejects, replace(RULE, limit=Limit(1, 1))),)
    )
    assert len(refused(PolicySet((given, given)))) == 2


@pytest.mark.parametrize(
    ("peers", "sources"),
    [
        ([block("10.0.0.0/8", "10.1.0.0/16"), block("192.0.2.0/24")],
         [{"nets": ["10.0.0.0/8", "192.0.2.0/24"], "notNets": ["10.1.0.0/16"]}]),
        ([block("10.0.0.0/8", "10.1.0.0/16"), block("10.1.2.0/24")],
         [{"nets": ["10.0.0.0/8"], "notNets": ["10.1.0.0/16"]}, {"nets": ["10.1.2.0/24"]}]),
        ([block("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24")],
         [{"nets": ["10.0.0.0/8"], "notNets": ["10.1.0.0/16"]}]),
        ([block("10.0.0.0/8"), block("2001:db8::/32")],
         [{"nets": ["10.0.0.0/8"]}, {"nets": ["2001:db8::/32"]}]),
        ([AllOf((block("10.0.0.0/8"), block("10.1.0.0/16", "10.1.2.0/24")))],
         [{"nets": ["10.1.0.0/16"], "notNets": ["10.1.2.0/24"]}]),
        ([AllOf((block("10.0.0.0/8"), block("11.0.0.0/8")))], []),
        ([AllOf((block("10.1.0.0/16"), Not(block("10.0.0.0/8"))))], []),
        ([Not(block("10.0.0.0/8", "10.1.0.0/16"))],
         [{"notNets": ["10.0.0.0/8"]}, {}, {"nets": ["10.1.0.0/16"]}]),
    ],
)  # fmt: skip
def test_address_blocks_become_nets(peers: list[Peer], sources: list[object]) -> None:
    found = written(replace(RULE, peers=tuple(peers)))
    assert [rule.get("source", {}) for rule in found] == sources


def test_a_rule_without_cidrs_names_its_family() -> None:
    found = written(replace(RULE, peers=(Not(block("10.0.0.0/8")),)))
    assert [rule.get("ipVersion") for rule in found] == [None, 6]


def test_many_peers_are_no_complicated_rule() -> None:
    pods = tuple(EndpointPeer(EndpointSelector(condition=asks("a", str(n)))) for n in range(200))
    assert len(written(replace(RULE, peers=pods))) == 200
    ports = (EveryPort(Protocol.TCP), EveryPort(Protocol.UDP))
    (why,) = refused(policies(policy(replace(RULE, peers=pods, ports=ports))))
    assert "more than 256 rules" in why


@pytest.mark.parametrize(
    ("spans", "fields"),
    [
        ([], []),
        ([(80, 80), (90, 99)], [{"ports": [80, "90:99"]}]),
        ([(0, 1023)], [{"notPorts": ["1024:65535"]}]),
        ([(0, 65535)], [{"ports": ["1:65535"]}, {"notPorts": ["1:65535"]}]),
    ],
)
def test_source_ports_are_of_each_protocol_that_has_them(
    spans: Iterable[tuple[int, int]], fields: list[object]
) -> None:
    found = written(replace(RULE, source_ports=IntervalSet.of(spans)))
    expected = [(name, each) for name in ("TCP", "UDP", "SCTP") for each in fields]
    assert [(rule["protocol"], rule["source"]) for rule in found] == expected


def test_each_written_rule_is_preceded_by_its_log_rule() -> None:
    ports = (EveryPort(Protocol.TCP), EveryPort(Protocol.UDP))
    found = written(replace(RULE, ports=ports, log=True))
    assert [(rule["action"], rule["protocol"]) for rule in found] == [
        ("Log", "TCP"), ("Allow", "TCP"), ("Log", "UDP"), ("Allow", "UDP"),
    ]  # fmt: skip


def test_tiers_have_legal_names_and_ascending_orders_around_the_default() -> None:
    names = ("kube-admin", "a.b", "a-b", "networkpolicy", "default", "extended-1e+06", "x" * 300)
    tiers = tuple(Tier(n, TierMode.FIRST_MATCH, Action.DENY, (policy(RULE),)) for n in names)
    objects = to_calico(PolicySet(tiers))
    found = [(o["metadata"]["name"], o["spec"]["order"]) for o in objects if o["kind"] == "Tier"]
    assert found == [
        ("admin", 100), ("a-b", 200), ("a-b-2", 300), ("default-2", 1_000_100),
        ("extended-1e-06", 1_000_200), ("x" * 40, 1_000_300),
    ]  # fmt: skip
    placed = [o["spec"]["tier"] for o in objects if o["kind"] != "Tier"]
    assert placed == [n for n, _ in found[:3]] + ["default"] + [n for n, _ in found[3:]]


def test_a_default_tier_that_passes_is_written_under_another_name() -> None:
    tier, _ = to_calico(policies(policy(RULE), tier="default", unmatched=Action.PASS))
    assert tier["metadata"]["name"] != "default"
    assert tier["spec"] == {"order": 100, "defaultAction": "Pass"}


def test_policies_without_pods_and_empty_tiers_are_omitted() -> None:
    assert to_calico(policies(policy(RULE, subject=NEVER))) == []
    assert to_calico(policies(policy(), unmatched=Action.PASS)) == []
    assert to_calico(PolicySet((Tier("t", TierMode.DENY_WINS, Action.DENY, ()),))) == []


def test_networks_are_written_as_they_are() -> None:
    network: Network = ip_network("2001:db8::/32")
    (rule,) = written(replace(RULE, peers=(AddressPeer(network),)))
    assert rule == {"action": "Allow", "source": {"nets": [str(network)]}}
