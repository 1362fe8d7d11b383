# SPDX-License-Identifier: Apache-2.0
"""`policyc replay` as a user runs it: observed flows of the shop, its policies, and changes of them."""

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import jsonschema
import pytest

from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "online-shop"
POLICIES = SHOP / "policies"
CLUSTER = ("--cluster", str(SHOP / "cluster"))
OBSERVED = ROOT / "examples" / "observed"
SCHEMA = json.loads((ROOT / "docs/schemas/replay-v1.schema.json").read_text())
CLOSING = """\
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: closed}
spec:
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: frontend}}}}
  egress: [{name: none, action: Deny, to: [{namespaces: {}}]}]
"""


@pytest.fixture
def closing(tmp_path: Path) -> Path:
    """The shop's policies, and one that denies the front end's egress."""
    for path in POLICIES.glob("*.yaml"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "closed.yaml").write_text(CLOSING)
    return tmp_path


def replay(flows: str | Path, policies: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return policyc_here("replay", str(flows), "-f", str(policies), *CLUSTER, *more)


def as_json(flows: str | Path, policies: Path, *more: str) -> tuple[int, Any]:
    done = replay(flows, policies, *more, "--format", "json")
    shown = json.loads(done.stdout)
    jsonschema.Draft202012Validator(SCHEMA).validate(shown)
    return done.returncode, shown


def test_a_flow_that_is_denied_now_is_named_with_its_policy_and_line(closing: Path) -> None:
    done = replay(OBSERVED / "flows.csv", closing)
    assert done.returncode == 1
    assert done.stdout.startswith("6 flows, observed 7392 times: 3 (1272 times) allowed")
    assert "denied at egress: rule AdminNetworkPolicy closed spec.egress[0] 'none'" in done.stdout
    assert f"({closing / 'closed.yaml'}:7:" in done.stdout
    assert done.stdout.index("4100 times") < done.stdout.index("1200 times")


def test_what_was_denied_when_observed_is_no_finding() -> None:
    code, shown = as_json(OBSERVED / "hubble.jsonl", POLICIES)
    assert (code, shown["findings"]) == (0, 0)
    assert [flow["finding"] for flow in shown["flows"]] == [False]
    assert {each["why"] for each in shown["skipped"]} == {"replies", "notices of lost events"}


def test_against_shows_what_a_change_closes_and_opens(closing: Path) -> None:
    flows = OBSERVED / "flows.csv"
    code, shown = as_json(flows, closing, "--against", str(POLICIES))
    assert code == 1
    assert {flow["kind"] for flow in shown["flows"]} == {"closed"}
    assert shown["tallies"]["closed"] == {"flows": 3, "observed": 6120}
    code, shown = as_json(flows, POLICIES, "--against", str(closing))
    assert {flow["kind"] for flow in shown["flows"]} == {"opened"}
    code, shown = as_json(flows, closing, "--against", str(closing))
    assert (code, shown["flows"]) == (0, [])


def test_an_undecided_flow_is_exit_code_3(tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("src,dst,protocol,port\nshop/cart,198.51.100.9,tcp,443\n")
    policy = tmp_path / "p" / "p.yaml"
    policy.parent.mkdir()
    policy.write_text(
        """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p, namespace: shop}
spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}
---
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: names, namespace: shop}
spec: {endpointSelector: {}, egress: [{toFQDNs: [{matchName: example.org}]}]}
"""
    )
    code, shown = as_json(flows, policy.parent, "--unsupported", "deny")
    assert code == 3
    (flow,) = shown["flows"]
    assert flow["kind"] == "undecided"
    assert "shop/names" in flow["depends_on"][0]


def test_many_flows_are_evaluated_by_compiled_code(tmp_path: Path, closing: Path) -> None:
    rows = [
        f"shop/{src},shop/{dst},tcp,{port},{port}"
        for port in range(7000, 7600)
        for src in ("frontend", "cart", "orders")
        for dst in ("checkout", "orders-db")
    ]
    flows = tmp_path / "many.csv"
    flows.write_text("\n".join(["src,dst,protocol,port,count", *rows]) + "\n")
    _, shown = as_json(flows, closing)
    assert shown["evaluated"].startswith("3600 by compiled code, 0 by")
    assert shown["tallies"]["denied"]["flows"] + shown["tallies"]["allowed"]["flows"] == 3600
    assert len(shown["flows"]) == 1000  # each of them agrees with the reference semantics
    assert shown["omitted"] == shown["tallies"]["denied"]["flows"] - 1000


@pytest.mark.parametrize("form", ["markdown", "github", "junit", "sarif"])
def test_every_format_shows_the_closed_flow(form: str, closing: Path) -> None:
    flows = OBSERVED / "flows.csv"
    shown = replay(flows, closing, "--against", str(POLICIES), "--format", form).stdout
    match form:
        case "markdown":
            assert shown.count("| closed |") == 3
        case "github":
            assert shown.count("::error file=") == 3
        case "junit":
            assert Xml.fromstring(shown).get("failures") == "3"
        case _:
            (run,) = json.loads(shown)["runs"]
            assert [each["ruleId"] for each in run["results"]] == ["observed-closed"] * 3


def test_a_wrong_line_stops_the_run_and_can_be_skipped(tmp_path: Path) -> None:
    flows = tmp_path / "flows.jsonl"
    flows.write_text((OBSERVED / "hubble.jsonl").read_text() + '{"flow": {"verdict": "FINE"}}\n')
    done = replay(flows, POLICIES)
    assert done.returncode == 2
    assert "flows.jsonl:8:1: error[PC0712]" in done.stderr
    code, shown = as_json(flows, POLICIES, "--skip-unknown")
    assert (code, shown["not_understood"]) == (0, 1)


def test_flows_of_another_cluster_are_an_error(tmp_path: Path) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("src,dst,protocol,port\nother/a,other/b,tcp,1\n")
    done = replay(flows, POLICIES)
    assert done.returncode == 2
    assert "error[PC0713]" in done.stderr


def test_flows_are_read_from_standard_input() -> None:
    arguments = ("replay", "-", "-f", str(POLICIES), *CLUSTER)
    done = policyc_here(*arguments, stdin=(OBSERVED / "calico.jsonl").read_text())
    assert done.returncode == 0
    assert "5 observations not placed" in done.stdout
