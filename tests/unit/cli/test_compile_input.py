# SPDX-License-Identifier: Apache-2.0
"""`policyc compile`: what is no input for it, before any compiler runs."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


@pytest.mark.parametrize("text", ["", "# only this\n", CONFIG, "---\n---\n"])
def test_input_without_a_policy_is_an_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(text)
    bundle = tmp_path / "bundle"
    assert run(["compile", "-f", str(tmp_path / "p.yaml"), "-o", str(bundle)]) == 2
    shown = capsys.readouterr().err
    assert "error[PC0117]: there is no policy in the input" in shown
    assert "--allow-empty" in shown
    assert not bundle.exists()


def test_allow_empty_accepts_an_input_without_policies(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(CONFIG)
    options = ["--emit", "policy-ir", "--allow-empty"]
    assert run(["compile", "-f", str(tmp_path / "p.yaml"), *options]) == 0


def test_eval_works_without_policies(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("# nothing yet\n")
    assert run(["eval", "-f", str(tmp_path / "p.yaml"), "10.0.0.1", "10.0.0.2", "tcp/80"]) == 0
