# SPDX-License-Identifier: Apache-2.0
"""The steps of docs/diff.md for a pull request, run in an environment that has what they install.

The environment has the wheels, and of all other packages only those that the `pip install` line asks
for, and what these need themselves.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from tests.wheel import built_wheels, environment

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "diff.md"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: PORT}]}]
"""


def steps() -> list[dict[str, Any]]:
    """The steps of the workflow on the page."""
    (text,) = re.findall(r"^```yaml\n(on: pull_request.*?)^```", PAGE.read_text(), re.M | re.S)
    found: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["policies"]["steps"]
    return found


def lines() -> list[str]:
    return [step["run"] for step in steps() if "run" in step]


def extras() -> set[str]:
    """The extras of the `pip install` line."""
    (line,) = (line for line in lines() if line.startswith("pip install"))
    (requirement,) = map(Requirement, shlex.split(line)[2:])
    assert requirement.name == "policyc"
    return requirement.extras


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what the recipe installs."""
    folder = tmp_path_factory.mktemp("environment")
    return environment(folder, built_wheels(tmp_path_factory), "policyc", frozenset(extras()))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkout whose branch changes a policy of `origin/main`."""
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "db.yaml").write_text(POLICY.replace("PORT", "5432"))
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (
        ("init", "-q", "-b", "change"),
        ("add", "-A"),
        ("commit", "-q", "-m", "first"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
    ):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    (policies / "db.yaml").write_text(POLICY.replace("PORT", "5433"))
    return tmp_path


def test_the_steps_of_the_recipe_work(installed: Path, repository: Path) -> None:
    variables = {
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        "HOME": str(repository),
        "GITHUB_BASE_REF": "main",
    }
    commands = [line for line in lines() if line.startswith("policyc ")]
    assert [_run(command, repository, variables) for command in commands] == [0, 1]
    assert "opened" in (repository / "diff.md").read_text()
    assert '"version": "2.1.0"' in (repository / "diff.sarif").read_text()


def _run(command: str, folder: Path, variables: dict[str, str]) -> int:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr and "error" not in done.stderr, done.stderr
    return done.returncode


def test_every_step_of_the_recipe_is_a_known_command() -> None:
    """A step that this test would not run is an action, an installation, or GitHub's own command."""
    known = ("policyc ", "pip install ", "gh ")
    assert all(line.startswith(known) for line in lines())
    assert sum(line.startswith("policyc ") for line in lines()) == 2
