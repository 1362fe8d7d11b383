# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies are taken, defaulted and rejected as the API server does, in its words."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.compiler.frontend import ObjectsSource, ReadOptions, read_policies
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.network_policy.policy import (
    decode_network_policy,
    spec_to_api,
)
from policyc.compiler.frontend.network_policy.validation import validate_network_policy
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    from_python,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError
from policyc.ir.policy import AddressPeer

CASES = Path(__file__).parents[3] / "golden/validation/networkpolicy.yaml"


def policy(spec: object, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", **metadata},
        "spec": spec,
    }


def findings(*objects: object, version: str = "1.36") -> list[Diagnostic]:
    try:
        options = ReadOptions(kube_version=version)
        return list(read_policies([ObjectsSource("test", objects)], options).findings)
    except InputError as wrong:
        return list(wrong.findings)


@pytest.mark.parametrize(
    "case", yaml.load(CASES.read_text(), yaml.CSafeLoader), ids=lambda case: case["name"]
)
def test_a_network_policy_is_validated_as_by_the_server(case: dict[str, Any]) -> None:
    report = Report()
    node = from_python(policy(case["spec"], name=case["name"]), "test")
    assert isinstance(node, Mapping)
    decoded = decode_network_policy(Decoder(report), node, "default")
    assert decoded is not None
    validate_network_policy(decoded, True, report)
    errors = [finding.message for finding in report.errors]
    assert errors == case.get("errors", []), case["case"]
    rejected = {error.partition(": ")[0] for error in errors}  # an error says it all
    warnings = [w for w in case.get("warnings", []) if w.partition(": ")[0] not in rejected]
    assert [f.message for f in report.findings if not f.is_error] == warnings
    assert (not errors) is case["accepted"]
    assert spec_to_api(decoded) == case["defaulted"]
    for finding in report.errors:
        assert finding.path and finding.path in finding.message


INGRESS_WARNINGS = [
    ("PC0501", {"policyTypes": ["Egress"], "ingress": [{}]}, "spec.ingress"),
    ("PC0501", {"policyTypes": ["Ingress"], "egress": [{}]}, "spec.egress"),
    ("PC0502", {"ingress": [{"from": None}]}, "spec.ingress[0].from"),
    ("PC0502", {"ingress": [{"ports": None}]}, "spec.ingress[0].ports"),
    ("PC0502", {"ingress": [None]}, "spec.ingress[0]"),
    ("PC0503", {"egress": [{"to": [{"podSelector": {}}]}]}, "spec.egress"),
    ("PC0204", {"podSelector": {"matchLabels": {"a": None}}}, "spec.podSelector.matchLabels.a"),
    (
        "PC0507",
        {"ingress": [{"from": [{"ipBlock": {"cidr": "2001:DB8::/32"}}]}]},
        "spec.ingress[0].from[0].ipBlock.cidr",
    ),
]


@pytest.mark.parametrize(("code", "spec", "path"), INGRESS_WARNINGS)
def test_a_policy_that_looks_like_another_is_warned_about(
    code: str, spec: dict[str, Any], path: str
) -> None:
    assert [(f.code, f.path) for f in findings(policy(spec))] == [(code, f"objects[0].{path}")]


def test_egress_that_is_empty_and_without_types_gets_two_warnings() -> None:
    codes = [finding.code for finding in findings(policy({"egress": []}))]
    assert codes == ["PC0503", "PC0504"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"ingress": [{"from": [{"podSelector": {}}]}]},
        {"policyTypes": ["Egress"], "egress": [{}]},
        {"ingress": [], "egress": [{}]},
    ],
)
def test_a_plain_policy_has_no_findings(spec: dict[str, Any]) -> None:
    assert findings(policy(spec)) == []


REJECTED = [
    ("PC0408", {"ingress": [{"from": [None]}]}, "spec.ingress[0].from[0]"),
    ("PC0408", {"ingress": [{"from": [{"podSelector": None}]}]}, "spec.ingress[0].from[0]"),
    ("PC0410", {"egress": [{"to": [{"ipBlock": {}}]}]}, "spec.egress[0].to[0].ipBlock.cidr"),
    ("PC0422", {"policyTypes": ["Ingress", "Egress", "Ingress"]}, "spec.policyTypes"),
    ("PC0423", {"policyTypes": ["ingress"]}, "spec.policyTypes[0]"),
    ("PC0404", {"podSelector": {"matchLabels": {"a/b/c": "x"}}}, "spec.podSelector.matchLabels"),
    ("PC0201", {"ingress": {}}, "spec.ingress"),
    ("PC0201", {"ingress": [{"ports": [{"port": True}]}]}, "spec.ingress[0].ports[0].port"),
    ("PC0201", {"ingress": [{"ports": [{"port": 80.5}]}]}, "spec.ingress[0].ports[0].port"),
    ("PC0203", {"ingress": [{"ports": [{"port": 2**40}]}]}, "spec.ingress[0].ports[0].port"),
    ("PC0201", {"podSelector": {"matchLabels": {"a": 1}}}, "spec.podSelector.matchLabels.a"),
    ("PC0201", {"podSelector": "web"}, "spec.podSelector"),
    ("PC0202", {"podSelector": {"matchLabel": {}}}, "spec.podSelector.matchLabel"),
    ("PC0202", {"ingress": [{"to": []}]}, "spec.ingress[0].to"),
]


@pytest.mark.parametrize(("code", "spec", "path"), REJECTED)
def test_an_invalid_field_is_one_error(code: str, spec: dict[str, Any], path: str) -> None:
    assert [(f.code, f.path) for f in findings(policy(spec))] == [(code, f"objects[0].{path}")]


@pytest.mark.parametrize(
    ("metadata", "codes"),
    [
        ({"name": ""}, ["PC0401"]),
        ({"name": "", "generateName": "web-"}, ["PC0402"]),
        ({"namespace": "Shop"}, ["PC0403"]),
        ({"namespace": "a.b"}, ["PC0403"]),
        ({"labels": {"a": "b c"}}, ["PC0404"]),
        ({"lables": {}}, ["PC0202"]),
        ({"annotations": {"a": 1}}, ["PC0201"]),
        ({"uid": "1", "creationTimestamp": None, "managedFields": [{"x": 1}]}, []),
    ],
)
def test_metadata_is_read_as_object_meta(metadata: dict[str, Any], codes: list[str]) -> None:
    assert [finding.code for finding in findings(policy({}, **metadata))] == codes


@pytest.mark.parametrize(
    ("cidr", "network", "code"),
    [
        ("10.1.2.3/8", "10.0.0.0/8", "PC0505"),
        ("010.0.0.0/08", "10.0.0.0/8", "PC0506"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8", "PC0506"),
    ],
)
def test_before_1_36_a_loose_cidr_is_a_warning_and_means_its_network(
    cidr: str, network: str, code: str
) -> None:
    written = policy({"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]})
    options = ReadOptions(kube_version="1.35")
    read = read_policies([ObjectsSource("test", (written,))], options)
    assert [finding.code for finding in read.findings] == [code]
    (peer,) = read.policies.tiers[0].policies[0].ingress[0].peers
    assert isinstance(peer, AddressPeer)
    assert str(peer.network) == network
    assert any(finding.is_error for finding in findings(written))


@pytest.mark.parametrize("version", ["1.36", "v1.36.2", "1.40", "2.0", "1.36+"])
def test_a_kube_version_is_read(version: str) -> None:
    assert ReadOptions(kube_version=version).is_strict


@pytest.mark.parametrize("version", ["", "one", "1", "1.x"])
def test_an_invalid_kube_version_is_an_error(version: str) -> None:
    assert [finding.code for finding in findings(version=version)] == ["PC0310"]


@pytest.mark.parametrize(
    "cidr",
    ["10.0.0.0/33", "10.0.0/8", "10.0.0.256/32", "1::/129", "fe80::1%eth0/64", "/8", "10.0.0.0/-1"],
)
def test_an_invalid_cidr_is_an_error_for_every_version(cidr: str) -> None:
    written = policy({"ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]})
    for version in ("1.30", "1.36"):
        assert [finding.code for finding in findings(written, version=version)] == ["PC0411"]


def test_one_run_shows_every_error() -> None:
    broken = policy({"podSelectr": {}, "ingress": [{"ports": [{"port": 0}, {"port": "80"}]}]})
    codes = [f.code for f in findings(broken, policy({"policyTypes": ["x"]}, name="q"))]
    assert sorted(codes) == ["PC0202", "PC0417", "PC0418", "PC0423"]
