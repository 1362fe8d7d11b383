# SPDX-License-Identifier: Apache-2.0
"""pipelines/review.sh, and the GitHub Action and the GitLab job that run it, on a real pull request."""

import contextlib
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commits import commit, git
from tests.pipelines.conftest import CLOSED, POLICY

ROOT = Path(__file__).parents[2]
REVIEW = str(ROOT / "pipelines" / "review.sh")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JOB = yaml.safe_load((ROOT / "pipelines" / "gitlab-ci.yml").read_text())["policyc"]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def review(change: Path, variables: dict[str, str]) -> Run:
    def runs(folder: str = ".", **more: str) -> subprocess.CompletedProcess[str]:
        given = {"POLICYC_OLD": "origin/main"} | more
        return subprocess.run(
            ["bash", REVIEW], cwd=change / folder, env=variables | given, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    return runs


def test_a_change_that_opens_traffic_fails_and_has_every_report(review: Run, change: Path) -> None:
    done = review()
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("widened: 1 region opened\n")
    reports = change / "policyc-reports"
    assert "**opened**" in (reports / "diff.md").read_text()
    (log,) = json.loads((reports / "diff.sarif").read_text())["runs"]
    assert len(log["results"]) == 1
    assert ET.parse(reports / "diff.xml").getroot().get("failures") == "1"


@pytest.mark.slow
@pytest.mark.parametrize(("fail_on", "code"), [("none", 0), ("narrowed", 0), ("any", 1)])
def test_the_gate_is_chosen(review: Run, fail_on: str, code: int) -> None:
    assert review(POLICYC_FAIL_ON=fail_on).returncode == code


@pytest.mark.slow
def test_a_change_that_closes_traffic_passes(review: Run, change: Path) -> None:
    (change / "policies" / "db.yaml").write_text(CLOSED)
    assert review().returncode == 0


def test_the_base_s_configuration_is_used(review: Run, change: Path) -> None:
    """The change may not look elsewhere, nor pass by another `failOn`."""
    (change / ".policyc.yaml").write_text("paths: [other]\ndiff: {failOn: none}\n")
    (change / "other").mkdir()
    (change / "other" / "p.yaml").write_text(POLICY)
    done = review()
    assert done.returncode == 1
    assert "configuration: git:origin/main:.policyc.yaml" in done.stderr


@pytest.mark.slow
def test_options_and_a_path_are_passed_on(review: Run, change: Path) -> None:
    (change / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\n"
        "spec: {containers: [{name: c}]}\nstatus: {podIP: 10.0.0.1}\n"
    )
    options = {"POLICYC_OPTIONS": "--cluster pod.yaml", "POLICYC_GATE": "cluster"}
    done = review(POLICYC_NEW="policies/db.yaml", **options)
    assert done.returncode == 0, "no pod of the cluster is a client"
    assert "universe: the given cluster: 1 pod or workload" in done.stdout


@pytest.mark.slow
def test_a_branch_behind_its_base_is_noticed(
    review: Run, change: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "lacks commits" not in review(POLICYC_NEW="policies").stderr
    monkeypatch.chdir(tmp_path / "origin")
    Path("later").write_text("")
    commit()
    git("-C", str(change), "fetch", "-q")
    assert "the branch lacks commits of origin/main" in review().stderr


def test_wrong_input_is_not_a_result(review: Run, change: Path) -> None:
    (change / "policies" / "db.yaml").write_text(POLICY.replace("ingress", "ingres"))
    done = review()
    assert done.returncode == 2
    assert "did you mean `ingress`" in done.stderr
    assert "did you mean" in (change / "policyc-reports" / "diff.md").read_text()
    assert review(POLICYC_OLD="").returncode == 2


@pytest.fixture
def tools(change: Path, variables: dict[str, str], tmp_path: Path) -> Path:
    """The directory of commands that stand for pip and gh; what they were given is in a file."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("pip", "gh"):
        (folder / name).write_text(f'#!/bin/bash\necho {name} "$@" >>"{folder}/asked"\n')
        (folder / name).chmod(0o755)
    variables["PATH"] = f"{folder}:{variables['PATH']}"
    return folder


def evaluated(text: str, values: dict[str, str]) -> str:
    """A text of a workflow with the expressions of inputs and contexts evaluated."""
    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", lambda found: values[found[1]], text)


def run_action(folder: Path, variables: dict[str, str], **inputs: str) -> list[int]:
    """The exit codes of the Action's own steps, in order."""
    values = {f"inputs.{k}": v["default"] for k, v in ACTION["inputs"].items()}
    values |= {f"inputs.{k.replace('_', '-')}": v for k, v in inputs.items()}
    values |= {"github.token": "secret", "github.event.number": "7"}
    codes = []
    for step in ACTION["runs"]["steps"]:
        if "run" in step:
            given = {k: evaluated(v, values) for k, v in step.get("env", {}).items()}
            of_github = {
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_BASE_REF": "main",
                "GITHUB_STEP_SUMMARY": str(folder.parent / "summary.md"),
            }
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=folder, env=variables | of_github | given, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            codes.append(done.returncode)
            (folder.parent / f"{step['name']}.out").write_text(done.stdout + done.stderr)
    return codes


def test_the_action_annotates_comments_and_fails(
    change: Path, variables: dict[str, str], tools: Path
) -> None:
    assert run_action(change, variables) == [0, 1, 0]
    out = (change.parent / "compare.out").read_text()
    assert "::error file=policies/db.yaml,line=7" in out
    assert "**opened**" in (change.parent / "summary.md").read_text()
    assert (tools / "asked").read_text().splitlines() == [
        "pip install --quiet policyc==0.1.0",
        "gh pr comment 7 --edit-last --create-if-none --body-file policyc-reports/diff.md",
    ]


@pytest.mark.slow
def test_the_action_takes_its_inputs(change: Path, variables: dict[str, str], tools: Path) -> None:
    inputs = {"old": "HEAD", "path": "policies", "package": "policyc==9", "reports": "made"}
    assert run_action(change, variables, **inputs) == [0, 0, 0]
    assert "equal" in (change / "made" / "diff.md").read_text()
    assert "pip install --quiet policyc==9" in (tools / "asked").read_text()


def test_the_action_s_expressions_are_known() -> None:
    """Every input is used, outputs are files that the script writes, and each step has a shell."""
    text = (ROOT / "action.yml").read_text()
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text
    script = (ROOT / "pipelines" / "review.sh").read_text()
    for output in ACTION["outputs"].values():
        assert output["value"].rpartition("/")[2] in script
    assert all(step.get("shell") == "bash" for step in ACTION["runs"]["steps"] if "run" in step)


def test_a_cluster_of_the_change_hides_nothing(review: Run, change: Path) -> None:
    """No pod of the cluster is a client: over it alone nothing opens."""
    (change / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\n"
        "spec: {containers: [{name: c}]}\nstatus: {podIP: 10.0.0.1}\n"
    )
    done = review(POLICYC_OPTIONS="--cluster pod.yaml")
    assert (done.returncode, "for other pods" in done.stderr) == (1, True)
    assert review(POLICYC_OPTIONS="--cluster pod.yaml", POLICYC_GATE="cluster").returncode == 0


def test_a_base_without_a_configuration_means_none(
    review: Run, change: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change may not bring one that looks elsewhere."""
    monkeypatch.chdir(tmp_path / "origin")
    Path(".policyc.yaml").unlink()
    commit()
    git("-C", str(change), "fetch", "-q")
    (change / ".policyc.yaml").write_text("paths: [other]\n")
    assert review().returncode == 1


def test_the_nearest_configuration_of_the_base_is_used(
    review: Run, change: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "origin")
    Path(".policyc.yaml").rename("policies/.policyc.yaml")
    Path("policies/.policyc.yaml").write_text("paths: [db.yaml]\n")
    commit()
    git("-C", str(change), "fetch", "-q")
    done = review(folder="policies")
    assert done.returncode == 1
    assert "configuration: git:origin/main:policies/.policyc.yaml" in done.stderr


@pytest.mark.parametrize("options", ["--cluster a\n--limit 3", "--cluster 'a b'"])
def test_options_that_would_be_split_are_refused(review: Run, options: str) -> None:
    done = review(POLICYC_OPTIONS=options)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one line, without quotes" in done.stderr


@pytest.mark.slow
def test_the_gitlab_job_reviews_a_merge_request(
    change: Path, variables: dict[str, str], tools: Path
) -> None:
    with contextlib.chdir(change.parent / "origin"):
        Path("pipelines").mkdir()
        Path("pipelines/review.sh").write_bytes(Path(REVIEW).read_bytes())
        commit()
    (change / "pipelines").mkdir()
    (change / "pipelines" / "review.sh").write_text("exit 0  # the change's own copy\n")
    given = {**JOB["variables"], "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(JOB["script"])],
        cwd=change, env=variables | given, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "widened" in done.stdout
    report = os.path.expandvars(JOB["artifacts"]["reports"]["junit"].replace(
        "$POLICYC_REPORTS", given["POLICYC_REPORTS"]))  # fmt: skip
    assert (change / report).is_file()


def test_the_image_installs_what_make_wheel_builds() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    steps: list[Any] = [line.split(" ", 1) for line in lines if line and line[0] != "#"]
    assert steps[0] == ["FROM", "python:3.12-slim"]
    assert ["COPY", "dist/*.whl /tmp/wheels/"] in steps
    assert any("pip install --no-cache-dir /tmp/wheels/*.whl" in words for _, words in steps)
    assert steps[-1] == ["ENTRYPOINT", '["policyc"]']
