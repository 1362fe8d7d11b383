# SPDX-License-Identifier: Apache-2.0
"""Policies of policy.networking.k8s.io are taken and rejected as by their CRDs, in their words."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.compiler.frontend import ObjectsSource, ReadOptions, read_policies
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Channel, Reading
from policyc.compiler.frontend.object_kinds import (
    ADMIN_NETWORK_POLICY,
    BASELINE_ADMIN_NETWORK_POLICY,
    CLUSTER_NETWORK_POLICY,
    Role,
)
from policyc.compiler.frontend.policy_kinds import READERS
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    from_python,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError

CASES = yaml.load(
    (Path(__file__).parents[3] / "golden/validation/policy_networking_k8s_io.yaml").read_text(),
    yaml.CSafeLoader,
)
VERSIONS = {
    kind: version
    for version, kind in (
        ADMIN_NETWORK_POLICY,
        BASELINE_ADMIN_NETWORK_POLICY,
        CLUSTER_NETWORK_POLICY,
    )
}
STRICTER = {
    "bad-operator": ("PC0407", "the CRD does not validate label selectors"),
    "in-no-values": ("PC0405", "the CRD does not validate label selectors"),
    "anp-proto-icmp": ("PC1114", "the CRD takes any text for a protocol"),
    "anp-range-inv": ("PC1115", "the CRD of v1alpha1 does not compare start and end"),
    "domains-deny": ("PC1116", "the CRD does not look at the action beside domain names"),
    "anp-domains-deny": ("PC1116", "the CRD does not look at the action beside domain names"),
}
"""Cases that the API server takes and we do not: the code, and why (docs/semantics.md)."""


def policy(kind: str, spec: object, name: str = "p", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": VERSIONS[kind],
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def validated(written: dict[str, Any], channel: Channel) -> list[Diagnostic]:
    report = Report()
    node = from_python(written, "test")
    assert isinstance(node, Mapping)
    key = (written["apiVersion"], written["kind"])
    READERS[key](RawObject(*key, Role.POLICY, node), Reading(report, channel=channel))
    return report.findings


@pytest.mark.parametrize("channel", Channel)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['kind']}-{case['name']}")
def test_a_policy_is_validated_as_by_the_server(case: dict[str, Any], channel: Channel) -> None:
    expected = case.get("errors", [])
    if isinstance(expected, dict):
        expected = expected[channel.value]
    written = policy(case["kind"], case["spec"], case["name"])
    errors = [finding for finding in validated(written, channel) if finding.is_error]
    if not expected and case["name"] in STRICTER:
        assert [error.code for error in errors] == [STRICTER[case["name"]][0]]
        return
    assert sorted(error.message for error in errors) == sorted(expected)


def test_the_cases_distinguish_the_channels() -> None:
    both = [case["errors"] for case in CASES if isinstance(case.get("errors"), dict)]
    assert sum(not e["standard"] or not e["experimental"] for e in both) == 7
    assert STRICTER.keys() <= {case["name"] for case in CASES}


def findings(*objects: object) -> list[Diagnostic]:
    try:
        return list(read_policies([ObjectsSource("test", objects)], ReadOptions()).findings)
    except InputError as wrong:
        return list(wrong.findings)


ALL: dict[str, Any] = {"namespaces": {}}


def cnp(rule: dict[str, Any] | None = None, direction: str = "egress", **more: Any) -> Any:
    spec = {"tier": "Admin", "priority": 1, "subject": ALL, **more}
    if rule is not None:
        spec[direction] = [rule]
    return policy("ClusterNetworkPolicy", spec)


def anp(ports: object) -> Any:
    rule = {"action": "Deny", "to": [ALL], "ports": ports}
    return policy("AdminNetworkPolicy", {"priority": 1, "subject": ALL, "egress": [rule]})


def to(**peer: Any) -> dict[str, Any]:
    return {"action": "Accept", "to": [peer]}


@pytest.mark.parametrize(
    ("written", "code", "path"),
    [
        (policy("ClusterNetworkPolicy", None), "PC1101", "spec"),
        (cnp({"to": [ALL]}), "PC1101", "spec.egress[0].action"),
        (cnp({"action": "Deny"}), "PC1101", "spec.egress[0].to"),
        (cnp({"action": "Deny", "to": [None]}), "PC0201", "spec.egress[0].to[0]"),
        (
            cnp({"action": "Deny", "to": [ALL, {"namespaces": None}]}),
            "PC1103",
            "spec.egress[0].to[1]",
        ),
        (cnp(to(networks=[])), "PC1103", "spec.egress[0].to[0].networks"),
        (cnp(to(networks=["10.0.0.0/08"])), "PC1110", "spec.egress[0].to[0].networks[0]"),
        (cnp(to(networks=["10.0.0.1"])), "PC1110", "spec.egress[0].to[0].networks[0]"),
        (cnp(to(networks=[None])), "PC0201", "spec.egress[0].to[0].networks[0]"),
        (cnp(to(networks=["10.0.0.1/8"])), "PC1118", "spec.egress[0].to[0].networks[0]"),
        (
            cnp(to(namespaces={"matchLabels": {"a": None}})),
            "PC1117",
            "spec.egress[0].to[0].namespaces.matchLabels.a",
        ),
        (
            cnp(to(namespaces={"matchLabels": {"a": "b c"}})),
            "PC0404",
            "spec.egress[0].to[0].namespaces.matchLabels",
        ),
        (anp([]), "PC1103", "spec.egress[0].ports"),
        (
            anp([{"portRange": {"start": 70000, "end": 5}}]),
            "PC1105",
            "spec.egress[0].ports[0].portRange.start",
        ),
        (
            anp([{"portNumber": {"protocol": "tcp", "port": 5}}]),
            "PC1114",
            "spec.egress[0].ports[0].portNumber.protocol",
        ),
        (anp([{"portNumber": {}}]), "PC1101", "spec.egress[0].ports[0].portNumber.port"),
        (anp([{"namedPort": ""}]), "PC1119", "spec.egress[0].ports[0].namedPort"),
    ],
)
def test_a_wrong_field_is_one_finding(written: Any, code: str, path: str) -> None:
    found = findings(written)
    assert [(f.code, f.path.removeprefix("objects[0].")) for f in found] == [(code, path)]


def test_a_namespace_of_a_cluster_wide_policy_is_warned_about() -> None:
    written = policy("AdminNetworkPolicy", {"priority": 1, "subject": ALL}, namespace="shop")
    (finding,) = findings(written)
    assert (finding.code, finding.is_error) == ("PC1120", False)


def test_domain_names_are_an_error_that_names_them() -> None:
    (finding,) = findings(cnp(to(domainNames=["*.example.com"])))
    assert (finding.code, finding.path) == ("PC1604", "spec.egress[0].to[0].domainNames")


def test_older_and_newer_policies_do_not_mix() -> None:
    older = policy("BaselineAdminNetworkPolicy", {"subject": ALL}, "default")
    assert [f.code for f in findings(older, cnp())] == ["PC1603"]
