# SPDX-License-Identifier: Apache-2.0
"""The order of a diff's regions: wide ones first, and a share for each subject under a limit."""

import json
from pathlib import Path
from typing import Any

import pytest

from policyc.compiler.cli.main import run

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web, namespace: {name}}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress]
  ingress:
  - {{from: [{{ipBlock: {{cidr: 192.0.2.0/24}}}}]}}
"""
RULE = (
    "  - {{from: [{{ipBlock: {{cidr: 203.0.{0}.0/24}}}}], ports: [{{port: {1}, endPort: {2}}}]}}\n"
)
POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: {name}, labels: {{app: web}}}}
spec: {{containers: [{{name: c}}]}}
status: {{podIP: 10.0.0.{at}}}
---
"""
TEAMS = ("large", "small", "smaller")
CLUSTER = ("--cluster", "pods.yaml")
UNIVERSES = pytest.mark.parametrize("cluster", [(), CLUSTER], ids=["symbolic", "cluster"])


@pytest.fixture(autouse=True)
def _sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace gets twelve rules, two get one; each rule has its own block and range of ports."""
    monkeypatch.chdir(tmp_path)
    numbers = {"large": range(12), "small": range(20, 21), "smaller": range(30, 31)}
    old = [POLICY.format(name=name) for name in TEAMS]
    new = [
        policy + "".join(RULE.format(n, 1000, 1000 + n) for n in numbers[name])
        for name, policy in zip(TEAMS, old, strict=True)
    ]
    Path("old.yaml").write_text("---\n".join(old))
    Path("new.yaml").write_text("---\n".join(new))
    Path("pods.yaml").write_text(
        "".join(POD.format(name=name, at=at) for at, name in enumerate(TEAMS, 1))
    )


def regions(capfd: pytest.CaptureFixture[str], *options: str) -> list[Any]:
    capfd.readouterr()
    assert run(["diff", "old.yaml", "new.yaml", "--format", "json", *options]) == 1
    found: list[Any] = json.loads(capfd.readouterr().out)["differences"]
    return found


def test_regions_with_many_services_come_first(capfd: pytest.CaptureFixture[str]) -> None:
    last_ports = [
        int(service.removeprefix("TCP ").removeprefix("1000-"))
        for each in regions(capfd)
        for service in each["services"]
    ]
    assert last_ports == [1030, 1020, *range(1011, 999, -1)]


def test_regions_with_many_addresses_come_first(capfd: pytest.CaptureFixture[str]) -> None:
    """Over the cluster rules are merged: port 1000 is open to all twelve blocks, 1011 to one."""
    found = [each["services"][0] for each in regions(capfd, *CLUSTER)]
    assert found[:3] == ["TCP 1000-1030", "TCP 1000-1020", "TCP 1000"]
    assert found[3:] == [f"TCP {port}" for port in range(1001, 1012)]


@UNIVERSES
def test_each_subject_has_a_share_of_the_shown_regions(
    cluster: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    shown = regions(capfd, *cluster, "--limit", "4")
    ends = [next(name for name in reversed(TEAMS) if name in each["to"]) for each in shown]
    assert sorted(ends) == ["large", "large", "small", "smaller"]


def test_text_says_what_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "old.yaml", "new.yaml", "--limit", "4"]) == 1
    assert "not shown: 10 regions opened; --all" in capfd.readouterr().out


def test_a_cluster_without_pods_is_noted(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing opens over it, whatever the change opens."""
    Path("empty.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: large}\n")
    assert run(["diff", "old.yaml", "new.yaml", "--cluster", "empty.yaml"]) == 0
    assert "no pods were compared" in capfd.readouterr().out
    regions(capfd, *CLUSTER)
    assert run(["diff", "old.yaml", "new.yaml", *CLUSTER]) == 1
    assert "no pods were compared" not in capfd.readouterr().out
