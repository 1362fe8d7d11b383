# SPDX-License-Identifier: Apache-2.0
"""Answers where parts of a flow are not known, where rules have effects, and at a node itself."""

import json
from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.driver.eval.answers import (
    answer,
    to_text,
)
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    EVERY_ENDPOINT,
    NO_ENDPOINT,
    Action,
    AddressPeer,
    AnyService,
    Direction,
    Limit,
    NodePeer,
    Not,
    OneOf,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.services import Service
from policyc.ir.spans import NOWHERE, Origin
from policyc.ir.universe import Endpoint, Flow, HostInterface, Node

SCHEMA = Path(__file__).parents[4] / "docs/schemas/eval-answer-v1.schema.json"
WEB = Endpoint("shop", "web", addresses=(IPv4Address("10.0.0.1"),), node="n1")
MANIFEST = Endpoint("shop", "manifest", addresses_known=False)
OUTSIDE = IPv4Address("203.0.113.9")
TCP = Service(6, 80)
INGRESS, EGRESS = Direction.INGRESS, Direction.EGRESS
TEN, HIGH = AddressPeer(ip_network("10.0.0.0/8")), AddressPeer(ip_network("128.0.0.0/1"))


def rule(action: Action = Action.ALLOW, **fields: Any) -> Rule:
    given: dict[str, Any] = {"peers": (ANY_PEER,), "ports": (AnyService(),), **fields}
    return Rule(action, origin=Origin(NOWHERE, "spec.rules[0]"), **given)


def policies(*rules: Rule, direction: Direction = INGRESS, **fields: Any) -> PolicySet:
    policy = Policy(
        "Test",
        "",
        "p",
        fields.pop("subject", EVERY_ENDPOINT),
        frozenset({direction}),
        rules if direction is INGRESS else (),
        rules if direction is EGRESS else (),
        Origin(NOWHERE, "metadata.name"),
        **fields,
    )
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


LOW_PORTS = rule(source_ports=IntervalSet.of([(1, 1023)]))


@pytest.mark.parametrize(
    ("rules", "source_port", "verdict"),
    [
        ([LOW_PORTS], None, "unknown"),
        ([LOW_PORTS], 1023, "allow"),
        ([LOW_PORTS], 1024, "deny"),
        ([LOW_PORTS, rule()], None, "allow"),
        ([LOW_PORTS, rule(source_ports=IntervalSet.of([(1024, 65535)]))], None, "allow"),
        ([rule(Action.DENY), LOW_PORTS], None, "deny"),
    ],
)
def test_a_source_port_that_is_read_must_be_known(
    rules: list[Rule], source_port: int | None, verdict: str
) -> None:
    flow = Flow(OUTSIDE, WEB, TCP, 4, source_port)
    found = answer(policies(*rules), flow)
    assert found.verdict == verdict
    if verdict == "unknown":
        (finding,) = found.findings("the flow", NOWHERE)
        assert "the source port of the connection" in finding.message
        assert "--source-port" in finding.hint


def test_protocols_without_ports_have_no_unknown_source_port() -> None:
    assert answer(policies(LOW_PORTS), Flow(OUTSIDE, WEB, Service(1, 8 << 8), 4)).verdict == "deny"


@pytest.mark.parametrize("peer", [TEN, Not(TEN), OneOf((TEN, HIGH))])
def test_an_unknown_address_is_seen_inside_boolean_peers(peer: Any) -> None:
    found = answer(policies(rule(peers=(peer,))), Flow(MANIFEST, WEB, TCP, 4))
    assert found.verdict == "unknown"
    assert [unknown.what for unknown in found.unknown] == ["the address"]


def test_the_subject_s_own_unknown_address_counts_where_rules_read_it() -> None:
    own = policies(rule(own=TEN), direction=EGRESS)
    found = answer(own, Flow(MANIFEST, OUTSIDE, TCP, 4))
    assert found.verdict == "unknown" and found.unknown[0].end == MANIFEST
    both = policies(rule(own=TEN), rule(own=Not(TEN)), direction=EGRESS)
    assert answer(both, Flow(MANIFEST, OUTSIDE, TCP, 4)).verdict == "allow"


NODE = Node("n1", addresses=(IPv4Address("192.0.2.1"),))


@pytest.mark.parametrize(
    ("subject", "node", "verdict"),
    [
        (WEB, NODE, "allow"),
        (WEB, replace(NODE, speaks=False), "deny"),
        (replace(WEB, node="n2"), NODE, "deny"),
        (replace(WEB, node=""), NODE, "unknown"),
        (replace(WEB, node=""), replace(NODE, speaks=False), "deny"),
    ],
)
def test_the_verdict_depends_on_whether_the_pod_runs_on_the_node(
    subject: Endpoint, node: Node, verdict: str
) -> None:
    assert answer(policies(), Flow(node, subject, TCP, 4)).verdict == verdict


def test_a_verdict_about_the_own_node_is_unknown_for_an_unscheduled_pod() -> None:
    local = policies(rule(peers=(NodePeer(where=Where.LOCAL),)), direction=EGRESS)
    assert answer(local, Flow(WEB, NODE, TCP, 4)).verdict == "allow"
    found = answer(local, Flow(replace(WEB, node=""), NODE, TCP, 4))
    assert found.verdict == "unknown" and found.unknown[0].what == "the node"


def test_effects_are_shown_with_their_rule() -> None:
    limited = rule(log=True, limit=Limit(10, 20), name="web")
    found = answer(policies(rule(Action.AUDIT), limited), Flow(OUTSIDE, WEB, TCP, 4))
    shown = found.ingress.to_json()["effects"]
    assert isinstance(shown, list)
    assert [effect["kind"] for effect in shown] == ["audit", "log", "limit"]
    assert (shown[2]["per_second"], shown[2]["burst"]) == (10, 20)
    text = to_text(found)
    assert "counted by rule Test p spec.rules[0]" in text
    assert "limited to 10 a second, 20 at once by rule Test p spec.rules[0] 'web'" in text
    assert "effects" not in found.egress.to_json()


def test_effects_that_depend_on_unknown_facts_are_omitted() -> None:
    logged = rule(log=True, peers=(TEN,))
    found = answer(policies(logged, rule()), Flow(MANIFEST, WEB, TCP, 4))
    assert (found.verdict, found.ingress.effects) == ("allow", ())


def test_a_host_interface_under_host_policy_without_a_policy_denies() -> None:
    host = replace(NODE, host=HostInterface("eth0", denies_unmatched=True))
    found = answer(policies(), Flow(OUTSIDE, host, TCP, 4))
    assert found.ingress.to_json() == {
        "verdict": "deny",
        "rule": {"kind": "host-deny", "host": "eth0"},
    }
    assert "no policy selects the host interface eth0" in to_text(found)


def test_a_source_port_matters_at_a_host_interface_too() -> None:
    host = replace(NODE, host=HostInterface("eth0"))
    guarding = policies(LOW_PORTS, subject=NO_ENDPOINT, hosts=ALWAYS)
    assert answer(guarding, Flow(OUTSIDE, host, TCP, 4)).verdict == "unknown"


def test_effects_and_host_interfaces_are_in_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    limited = rule(log=True, limit=Limit(10, 20))
    host = replace(NODE, host=HostInterface("eth0", denies_unmatched=True))
    for end in (WEB, host):
        validator.validate(answer(policies(limited), Flow(OUTSIDE, end, TCP, 4)).to_json())
