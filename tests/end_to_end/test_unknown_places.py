# SPDX-License-Identifier: Apache-2.0
"""An address that a workload's pods may have is an address outside as well, until one has it."""

import json
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: out, namespace: a}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  egress: [{to: [{ipBlock: {cidr: 203.0.113.7/32}}], ports: [{port: 443}]}]
"""
OPEN = POLICY.replace("[Ingress, Egress]", "[Egress]")
CLUSTER = "\n---\n".join(
    f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: w{at}, namespace: a}}
spec:
  selector: {{matchLabels: {{app: w{at}}}}}
  template: {{metadata: {{labels: {{app: w{at}}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}
"""
    for at in range(2)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.yaml").write_text(POLICY)
    (tmp_path / "open.yaml").write_text(OPEN)
    (tmp_path / "new.yaml").write_text(POLICY.split("  egress:")[0])
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return tmp_path


def test_diff_reports_a_closed_connection_to_an_external_address(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--cluster", "c.yaml", "--format", "json"]
    assert run(["diff", "old.yaml", "new.yaml", *options]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["result"] == "narrowed"
    assert result["differences"][0]["to"] == "203.0.113.7"


def test_the_rule_for_an_address_outside_is_not_useless(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["check", "-f", "old.yaml", "--cluster", "c.yaml", "--format", "json"])
    codes = {each["code"] for each in json.loads(capsys.readouterr().out)["findings"]}
    assert not codes & {"PC2001", "PC2002", "PC2003"}


@pytest.mark.parametrize("policies", ["old.yaml", "open.yaml"])
def test_the_address_is_listed_and_two_ends_at_it_are_not(
    folder: Path, policies: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", "-f", policies, "--cluster", "c.yaml", "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    outside = next(g for g in listed["groups"] if g["members"] == ["203.0.113.7"])
    pairs = {(each["from"], each["to"]) for each in listed["connections"]}
    assert any(to == outside["group"] for _, to in pairs)
    assert listed["counts"]["connected_pairs"] == len(pairs)
    assert run(["list", "-f", policies, "--cluster", "c.yaml"]) == 0
