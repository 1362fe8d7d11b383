# SPDX-License-Identifier: Apache-2.0
"""A pull request: a repository whose branch changes a policy of `origin/main`, and policyc installed."""

import os
from pathlib import Path

import pytest

from tests.commits import commit, first_commit, git
from tests.wheel import WHOLE, built_wheels, environment

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
"""
OPENED = POLICY.replace("port: 5432", "port: 5432, endPort: 5440")
CLOSED = POLICY.replace("{app: web}", "{app: web, tier: front}")


@pytest.fixture(scope="session")
def policyc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the command, as pip would install it."""
    folder = tmp_path_factory.mktemp("policyc")
    return environment(folder, built_wheels(tmp_path_factory), WHOLE) / "bin"


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout of a branch that opens ports; it is the working directory."""
    origin, here = tmp_path / "origin", tmp_path / "checkout"
    (origin / "policies").mkdir(parents=True)
    monkeypatch.chdir(origin)
    (origin / "policies" / "db.yaml").write_text(POLICY)
    (origin / ".policyc.yaml").write_text("paths: [policies]\n")
    first_commit()
    git("clone", "-q", str(origin), str(here))
    monkeypatch.chdir(here)
    git("checkout", "-q", "-b", "change")
    (here / "policies" / "db.yaml").write_text(OPENED)
    commit()
    return here


@pytest.fixture
def variables(policyc: Path, change: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a step, without what this process has of GitHub's or GitLab's."""
    return {"PATH": f"{policyc}:{os.environ['PATH']}", "HOME": str(tmp_path)}
