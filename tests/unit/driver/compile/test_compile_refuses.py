# SPDX-License-Identifier: Apache-2.0
"""`compile` writes nothing when its own Decision IR is refuted."""

from dataclasses import replace
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compile import compile as driver
from policyc.compiler.driver.compile.pipeline import Decided
from policyc.ir.policy import PolicySet
from policyc.verifier.decision.outcome import Undecided

CASE = Path(__file__).parents[3] / "golden" / "emitted" / "selectors_and_ports"
ARGUMENTS = ["compile", "-f", str(CASE / "policies.yaml"), "--cluster", str(CASE / "cluster.yaml")]


def test_a_wrong_decision_is_exit_code_three_with_a_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = driver.decide_read

    def corrupted(
        read: driver.Read, policies: PolicySet, subjects: frozenset[str] | None
    ) -> Decided:
        decided = honest(read, policies, subjects)
        decision = decided.decision
        wrong = replace(decision, ingress=decision.egress, egress=decision.ingress)
        return replace(decided, decision=wrong)

    monkeypatch.setattr(driver, "decide_read", corrupted)
    assert run([*ARGUMENTS, "-o", str(tmp_path / "bundle")]) == 3
    said = capsys.readouterr().err
    assert "the Decision IR differs from the Policy IR" in said
    assert "witness: shop/" in said and "policies.yaml:" in said
    assert not list(tmp_path.iterdir())


def test_compile_writes_nothing_if_the_solver_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "prove_decision", lambda *_: Undecided("timeout"))
    assert run([*ARGUMENTS, "-o", str(tmp_path / "bundle")]) == 3
    assert "gave up" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
