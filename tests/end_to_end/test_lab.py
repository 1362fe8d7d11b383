# SPDX-License-Identifier: Apache-2.0
"""`policyc lab` on the example: real packets agree with the YAML, and a lie would be seen."""

import json
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli import lab as lab_command
from policyc.compiler.cli.main import run
from policyc.compiler.driver.eval.lab import expected_matrix
from policyc.ir.policy import PolicySet
from policyc.ir.universe import Endpoint
from policyc.runtime.lab.namespaces import stale_labs
from policyc.runtime.lab.probes import Outcome, Probe
from tests.kernel.lab.left import nothing_is_left_since

pytestmark = pytest.mark.kernel
ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "schemas" / "lab-result-v1.schema.json"
SHOP = ROOT / "examples" / "online-shop"
ARGUMENTS = ["lab", "-f", str(SHOP / "policies"), "--cluster", str(SHOP / "cluster")]


def test_the_wire_agrees_with_the_yaml(capfd: pytest.CaptureFixture[str]) -> None:
    before = stale_labs()
    assert run([*ARGUMENTS, "--format", "json"]) == 0
    result = json.loads(capfd.readouterr().out)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(result)
    assert result["agrees"] and not result["differences"]
    outcomes = [probe["outcome"] for probe in result["seen"]]
    assert {probe["protocol"] for probe in result["seen"]} == {"TCP", "UDP", "ICMP"}
    assert len(outcomes) > 2000
    assert outcomes.count("allowed") > 100
    assert outcomes.count("denied") > 1000
    assert nothing_is_left_since(before)


def test_a_difference_is_shown_and_is_exit_code_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def one_lie(policies: PolicySet, pods: tuple[Endpoint, ...]) -> dict[Probe, Outcome]:
        matrix = {
            probe: outcome
            for probe, outcome in expected_matrix(policies, pods).items()
            if probe.destination.startswith("kube-system/")
        }
        lied = next(probe for probe, outcome in matrix.items() if outcome is Outcome.ALLOWED)
        return {**matrix, lied: Outcome.DENIED}

    monkeypatch.setattr(lab_command, "expected_matrix", one_lie)
    assert run(ARGUMENTS) == 1
    out = capfd.readouterr().out
    assert "1 differs from expected" in out
    assert "expected denied" in out


def test_the_lab_requires_a_cluster(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "-f", str(SHOP / "policies")]) == 2
    assert "--cluster" in capfd.readouterr().err
