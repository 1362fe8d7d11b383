# SPDX-License-Identifier: Apache-2.0
"""Policies that share a priority: an error only where two rules can contradict each other (B31)."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.compiler.frontend import ObjectsSource, read_policies
from policyc.compiler.frontend.checks.overlap import labels_overlap
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.matching import labels_match
from policyc.ir.policy import LabelSelector, Operator, Requirement

ALL: dict[str, Any] = {"namespaces": {}}


def labels(**wanted: str) -> dict[str, Any]:
    return {"namespaces": {"matchLabels": wanted}}


def cnp(
    name: str,
    action: str,
    peer: dict[str, Any] = ALL,
    subject: dict[str, Any] = ALL,
    protocol: dict[str, Any] | None = None,
    tier: str = "Admin",
    priority: int = 7,
) -> dict[str, Any]:
    rule: dict[str, Any] = {"action": action, "to": [peer]}
    if protocol is not None:
        rule["protocols"] = [protocol]
    return {
        "apiVersion": "policy.networking.k8s.io/v1alpha2",
        "kind": "ClusterNetworkPolicy",
        "metadata": {"name": name},
        "spec": {"tier": tier, "priority": priority, "subject": subject, "egress": [rule]},
    }


def findings(*objects: object) -> list[Diagnostic]:
    try:
        return list(read_policies([ObjectsSource("test", objects)]).findings)
    except InputError as wrong:
        return list(wrong.findings)


def tcp(low: int, high: int) -> dict[str, Any]:
    return {"tcp": {"destinationPort": {"range": {"start": low, "end": high}}}}


CONFLICTS = [
    ({}, {}),
    ({"peer": {"networks": ["10.0.0.0/8"]}}, {"peer": {"networks": ["10.1.0.0/16"]}}),
    ({"peer": {"networks": ["10.0.0.0/8"]}}, {"peer": ALL}),
    ({"peer": {"networks": ["10.0.0.0/8"]}}, {"peer": {"nodes": {}}}),
    ({"protocol": tcp(1, 10)}, {"protocol": tcp(10, 20)}),
    ({"protocol": tcp(1, 10)}, {"protocol": {"destinationNamedPort": "web"}}),
    ({"protocol": tcp(1, 10)}, {}),
    ({"subject": labels(a="1")}, {"subject": labels(b="2")}),
]
APART = [
    ({"tier": "Baseline"}, {}),
    ({"priority": 8}, {}),
    ({"peer": {"networks": ["10.0.0.0/8"]}}, {"peer": {"networks": ["11.0.0.0/8"]}}),
    ({"peer": {"networks": ["10.0.0.0/8"]}}, {"peer": {"networks": ["::/0"]}}),
    ({"peer": {"nodes": {}}}, {"peer": ALL}),
    (
        {"peer": {"nodes": {"matchLabels": {"a": "1"}}}},
        {"peer": {"nodes": {"matchLabels": {"a": "2"}}}},
    ),
    ({"peer": labels(a="1")}, {"peer": labels(a="2")}),
    ({"subject": labels(a="1")}, {"subject": labels(a="2")}),
    ({"protocol": tcp(1, 10)}, {"protocol": tcp(11, 20)}),
    ({"protocol": tcp(1, 10)}, {"protocol": {"udp": {"destinationPort": {"number": 5}}}}),
]


@pytest.mark.parametrize(("one", "other"), CONFLICTS)
def test_rules_that_can_both_match_with_different_actions_are_an_error(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    (found,) = findings(cnp("a", "Accept", **one), cnp("b", "Deny", **other))
    assert found.code == "PC1121"
    assert "spec.egress[0] and spec.egress[0] can both match" in found.message


@pytest.mark.parametrize(("one", "other"), CONFLICTS)
def test_rules_with_the_same_action_are_a_warning(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    (found,) = findings(cnp("a", "Deny", **one), cnp("b", "Deny", **other))
    assert (found.code, found.is_error) == ("PC1122", False)


@pytest.mark.parametrize(("one", "other"), APART)
def test_rules_that_cannot_both_match_are_no_error(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    found = findings(cnp("a", "Accept", **one), cnp("b", "Deny", **other))
    assert not [finding for finding in found if finding.is_error]
    assert len(found) == ("tier" not in one and "priority" not in one)


def test_a_group_without_a_conflict_is_one_warning_that_names_some() -> None:
    (found,) = findings(*(cnp(f"p{at}", "Deny") for at in range(8)))
    assert "ClusterNetworkPolicy p4 and 3 more" in found.message


def test_every_policy_is_compared_with_those_that_may_share_a_subject() -> None:
    """Also policies without a requirement on the label that most policies require."""
    others = [cnp(f"o{at}", "Accept", subject=labels(team=str(at))) for at in range(6)]
    some = cnp("some", "Deny", subject={"namespaces": {"matchExpressions": [TEAM]}})
    found = findings(*others, some, cnp("all", "Deny"))
    pairs = [tuple(finding.message.split()[1:5:3]) for finding in found]
    assert [finding.code for finding in found] == ["PC1121", "PC1121"]
    assert pairs == [("some", "o2"), ("all", "o0")]


TEAM = {"key": "team", "operator": "In", "values": ["2", "9"]}
OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
VALUES = ("", "1", "2")


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector:
    found = []
    for _ in range(draw(st.integers(0, 3))):
        operator = draw(st.sampled_from(OPERATORS))
        some = draw(st.sets(st.sampled_from(VALUES), min_size=1))
        values = tuple(sorted(some)) if operator in OPERATORS[:2] else ()
        found.append(Requirement(draw(st.sampled_from("ab")), operator, values))
    return LabelSelector(tuple(found))


@given(selectors(), selectors())
def test_selectors_overlap_where_some_labels_satisfy_both(
    one: LabelSelector, other: LabelSelector
) -> None:
    values = (None, *VALUES, "other")
    possible = (
        {key: value for key, value in zip("ab", chosen, strict=True) if value is not None}
        for chosen in product(values, repeat=2)
    )
    satisfied = any(labels_match(one, held) and labels_match(other, held) for held in possible)
    assert labels_overlap(one, other) is satisfied
