# SPDX-License-Identifier: Apache-2.0
"""The hooks of .pre-commit-hooks.yaml: their commands, and pre-commit itself."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.pipelines.conftest import OPENED, POLICY

ROOT = Path(__file__).parents[2]
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
UNFORMATTED = """\
apiVersion: policyc.dev/v1alpha1
kind: Intent
metadata: {name: shop}
spec:
  intents: |
    never   tcp/5432 from any to pod.app == "db"
"""


def command_of(hook: str) -> list[str]:
    found = HOOKS[hook]
    return [*shlex.split(found["entry"]), *found.get("args", ())]


def run(command: list[str], folder: Path, variables: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("hook", "text", "code"),
    [
        ("policyc-check", POLICY, 0),
        ("policyc-check", POLICY.replace("ingress", "ingres"), 2),
        ("policyc-diff", OPENED, 0),
        ("policyc-diff", OPENED.replace("5440", "5441"), 1),
    ],
)  # fmt: skip
def test_the_commands_judge_the_configured_paths(
    change: Path, variables: dict[str, str], hook: str, text: str, code: int
) -> None:
    (change / "policies" / "db.yaml").write_text(text)
    found, said = run(command_of(hook), change, variables)
    assert found == code, said


def test_a_deleted_file_does_not_skip_the_hooks() -> None:
    """pre-commit lists no deleted files, so a hook by files would be skipped."""
    for name in ("policyc-check", "policyc-diff"):
        assert HOOKS[name]["always_run"] and "files" not in HOOKS[name]


def test_fmt_formats_the_files_that_it_is_given(change: Path, variables: dict[str, str]) -> None:
    (change / "intents.yaml").write_text(UNFORMATTED)
    files = ["intents.yaml", "policies/db.yaml"]
    assert run([*command_of("policyc-fmt"), *files], change, variables)[0] == 0
    assert "never tcp/5432 from any" in (change / "intents.yaml").read_text()


@pytest.mark.slow
def test_pre_commit_installs_and_runs_the_hooks(
    change: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    """pre-commit clones this repository, installs it by pip, and runs each hook."""
    (change / ".pre-commit-config.yaml").write_text("repos: []\n")
    (change / "policies" / "db.yaml").write_text(OPENED.replace("5440", "5441"))
    (change / "intents.yaml").write_text(UNFORMATTED)
    subprocess.run(["git", "add", "-A"], cwd=change, check=True)
    variables |= {"PRE_COMMIT_HOME": str(tmp_path / "pre-commit"), "PATH": os.environ["PATH"]}
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    command = [sys.executable, "-m", "pre_commit", "try-repo", str(ROOT), "--all-files"]
    code, said = run(command, change, variables | pip)
    assert code == 1, said
    results = {
        line.partition(".")[0]: line.rstrip().rpartition(".")[2]
        for line in said.splitlines()
        if line.startswith("policyc ")
    }
    assert results == {"policyc check": "Passed", "policyc diff": "Failed", "policyc fmt": "Failed"}
    assert "1 region opened" in said
