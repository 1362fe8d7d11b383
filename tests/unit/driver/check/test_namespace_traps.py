# SPDX-License-Identifier: Apache-2.0
"""Notes about peers that probably mean other namespaces."""

from pathlib import Path

import pytest

from tests.unit.driver.check.checked import PODS, checked, found, policy

TEAM = "{namespaceSelector: {matchLabels: {team: a}}}"
WEB = "{podSelector: {matchLabels: {app: web}}}"
BOTH = "{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}"
ALL = "{namespaceSelector: {}}"
OWN = "{podSelector: {}}"
BLOCK = "{ipBlock: {cidr: 10.0.0.0/8}}"


def spec(*peers: str) -> str:
    return f"podSelector: {{}}, ingress: [{{from: [{', '.join(peers)}]}}]"


@pytest.mark.parametrize(
    ("peers", "number"),
    [
        ((TEAM, WEB), 1),
        ((BLOCK, TEAM, WEB), 1),
        ((TEAM, WEB, TEAM, WEB), 2),
        ((WEB, TEAM), 0),
        ((BOTH,), 0),
        ((BOTH, WEB), 0),
        ((TEAM, BLOCK, WEB), 0),
        ((ALL, WEB), 0),
        ((TEAM, OWN), 0),
    ],
)
def test_two_peers_that_may_be_meant_as_one(
    tmp_path: Path, peers: tuple[str, ...], number: int
) -> None:
    result = checked(tmp_path, policy("p", spec(*peers)))
    assert len(found(result, "PC2012")) == number


def test_egress_peers_are_looked_at_too(tmp_path: Path) -> None:
    egress = f"podSelector: {{}}, policyTypes: [Egress], egress: [{{to: [{TEAM}, {WEB}]}}]"
    (finding,) = (
        each for each in checked(tmp_path, policy("p", egress)).findings if each.code == "PC2012"
    )
    assert "spec.egress[0].to[0] matches every pod of its namespaces" in finding.explanation


NAME = "{namespaceSelector: {matchLabels: {name: %s}}}"


@pytest.mark.parametrize(
    ("peer", "number"),
    [
        (NAME % "shop", 1),
        ("{namespaceSelector: {matchExpressions: [{key: name, operator: In, values: [a, b]}]}}", 2),
        ("{namespaceSelector: {matchExpressions: [{key: name, operator: Exists}]}}", 0),
        ("{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}", 0),
        ("{podSelector: {matchLabels: {name: shop}}}", 0),
    ],
)
def test_namespaces_that_are_selected_by_name(tmp_path: Path, peer: str, number: int) -> None:
    assert len(found(checked(tmp_path, policy("p", spec(peer))), "PC2013")) == number


def test_a_label_that_a_namespace_of_the_cluster_has_is_meant(tmp_path: Path) -> None:
    labelled = PODS.replace("{name: shop}", "{name: shop, labels: {name: front}}")
    for name, number in (("front", 0), ("back", 1)):
        result = checked(tmp_path, policy("p", spec(NAME % name)), cluster=labelled)
        assert len(found(result, "PC2013")) == number
