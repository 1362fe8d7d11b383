# SPDX-License-Identifier: Apache-2.0
"""`policyc diff` and `equiv` of many regions: true totals, and some of each kind shown."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compare import diff as driver
from policyc.ir.policy import PolicySet
from policyc.verifier.diff import symbolic as symbolic_diff
from policyc.verifier.diff.end_changes import GaveUpError
from policyc.verifier.diff.symbolic import SymbolicDiff
from tests.property.length import AT_LENGTH

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
"""
RULE = "  - {{from: [{{ipBlock: {{cidr: 203.0.{0}.0/24}}}}], ports: [{{port: {1}}}]}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: c}]}
status: {podIP: 10.0.0.1}
"""
KEPT, OPENED, CLOSED = range(3), range(10, 34), range(50, 56)
CLUSTER = ("--cluster", "pod.yaml")
UNIVERSES = pytest.mark.parametrize("cluster", [(), CLUSTER], ids=["symbolic", "cluster"])
ONCE = pytest.mark.usefixtures("_once")
COUNTS = {
    "widened": {"regions": 24, "complete": True},
    "narrowed": {"regions": 6, "complete": True},
    "changed": {"regions": 0, "complete": True},
    "latent": {"regions": 0, "complete": True},
}


def policy(*numbers: int) -> str:
    return POLICY + "".join(RULE.format(n, 1000 + n) for n in numbers)


@pytest.fixture(autouse=True)
def _sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 rules are new and 6 are gone, each with its own block and port."""
    monkeypatch.chdir(tmp_path)
    Path("old.yaml").write_text(policy(*KEPT, *CLOSED))
    Path("new.yaml").write_text(policy(*KEPT, *OPENED))
    Path("pod.yaml").write_text(POD)


@pytest.fixture(scope="module")
def asked() -> list[tuple[Any, SymbolicDiff]]:
    """Questions of this module, and their answers."""
    return []


@pytest.fixture
def _once(asked: list[tuple[Any, SymbolicDiff]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `make test` each format shows the one answer: the search for it takes a second."""

    def answer(*sides: PolicySet, **options: Any) -> SymbolicDiff:
        question = sides, options
        for known, found in asked:
            if known == question:
                return found
        asked.append((question, symbolic_diff.diff_symbolic(*sides, **options)))
        return asked[-1][1]

    if not os.environ.get(AT_LENGTH):
        monkeypatch.setattr(driver, "diff_symbolic", answer)


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    capfd.readouterr()
    assert run(list(arguments)) == code
    return capfd.readouterr().out


def document(text: str, schema: str = "diff-v1") -> Any:
    found = json.loads(text)
    jsonschema.Draft202012Validator(
        json.loads((SCHEMAS / f"{schema}.schema.json").read_text())
    ).validate(found)
    return found


def kinds(found: Any) -> list[str]:
    return [difference["kind"] for difference in found["differences"]]


@UNIVERSES
@ONCE
@pytest.mark.parametrize("style", ["text", "markdown"])
def test_opened_flows_do_not_hide_closed_flows(
    cluster: tuple[str, ...], style: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = said(capfd, "diff", "old.yaml", "new.yaml", *cluster, "--format", style)
    opened, closed = {"text": (" opened, ", " closed, "), "markdown": ("**opened**", "**closed**")}[
        style
    ]
    rows = [line for line in out.splitlines() if opened in line or closed in line]
    rows = [line for line in rows if line[:1].isdigit() or line.startswith("| ")]
    assert "24 regions opened, 6 regions closed" in out
    assert [closed in row for row in rows] == [False] * 14 + [True] * 6
    assert "not shown: 10 regions opened; " in out


@UNIVERSES
@ONCE
def test_json_and_sarif_are_complete(
    cluster: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    sides = ("diff", "old.yaml", "new.yaml", *cluster)
    found = document(said(capfd, *sides, "--format", "json"))
    assert kinds(found) == ["widened"] * 24 + ["narrowed"] * 6
    assert (found["counts"], found["omitted"]) == (COUNTS, 0)
    (log,) = json.loads(said(capfd, *sides, "--format", "sarif"))["runs"]
    assert len(log["results"]) == 30
    assert (log["properties"]["counts"], log["properties"]["omitted"]) == (COUNTS, 0)
    assert "toolExecutionNotifications" not in log["invocations"][0]


@UNIVERSES
@ONCE
def test_a_limit_shortens_every_format_and_no_total(
    cluster: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    sides = ("diff", "old.yaml", "new.yaml", *cluster, "--limit", "7")
    found = document(said(capfd, *sides, "--format", "json"))
    assert kinds(found) == ["widened"] * 4 + ["narrowed"] * 3
    assert (found["counts"], found["omitted"]) == (COUNTS, 23)
    (log,) = json.loads(said(capfd, *sides, "--format", "sarif"))["runs"]
    assert (len(log["results"]), log["properties"]["omitted"]) == (7, 23)
    note = log["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert note == "not shown: 20 regions opened, 3 regions closed"


def test_a_search_that_stops_gives_a_lower_bound(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "MOST_COUNTED", 8)
    sides = ("diff", "old.yaml", "new.yaml", "--limit", "6")
    out = said(capfd, *sides)
    assert out.startswith("both: at least 8 regions opened, 6 regions closed\n")
    assert "not shown: at least 5 regions opened, 3 regions closed; --all" in out
    found = document(said(capfd, *sides, "--format", "json"))
    assert found["counts"]["widened"] == {"regions": 8, "complete": False}
    assert found["counts"]["narrowed"] == {"regions": 6, "complete": True}
    assert found["omitted"] == 8


def test_a_stopped_search_is_reported_even_if_all_counts_are_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "MOST_COUNTED", 1)
    Path("old.yaml").write_text(policy(*KEPT))
    out = said(capfd, "diff", "old.yaml", "new.yaml", "--limit", "2")
    assert out.startswith("widened: at least 2 regions opened\n")
    assert "there may be more regions than were counted; --all" in out


def test_an_undecided_diff_claims_no_total(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def gives_up(*_: object) -> None:
        raise GaveUpError("timeout")

    monkeypatch.setattr(symbolic_diff._Run, "_explore", gives_up)
    sides = ("diff", "old.yaml", "new.yaml")
    found = document(said(capfd, *sides, "--format", "json", code=3))
    assert found["result"] == "undecided"
    assert not any(count["complete"] for count in found["counts"].values())


@pytest.mark.parametrize(
    "cluster", [pytest.param((), marks=pytest.mark.slow), CLUSTER], ids=["symbolic", "cluster"]
)
def test_equiv_counts_differences_that_it_does_not_show(
    cluster: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    sides = ("equiv", "old.yaml", "new.yaml", *cluster)
    found = document(said(capfd, *sides, "--format", "json"), "certificate-v2")
    assert kinds(found) == ["widened"] * 14 + ["narrowed"] * 6
    assert (found["counts"], found["omitted"]) == (COUNTS, 10)
    assert "not shown: 10 regions opened; `policyc diff --all`" in said(capfd, *sides)
