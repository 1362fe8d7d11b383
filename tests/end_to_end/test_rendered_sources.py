# SPDX-License-Identifier: Apache-2.0
"""Every command reads kustomizations and charts; small programs stand for kustomize and helm."""

import json
import os
import shutil
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from tests.commits import first_commit
from tests.end_to_end.command import policyc_here

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
"""
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {nodeName: a, containers: [{name: c}]}
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {nodeName: a, containers: [{name: c}]}
status: {phase: Running, podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}
"""
INTENT = 'never tcp/22 from pod.app == "web" to pod.app == "db"\n'
BOTH = ("-f", "kustomize:app", "--cluster", "kustomize:cluster")
FLOW = ("shop/web", "shop/db", "tcp/5432")


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; its tools print a file of the directory that they get."""
    tools, work = tmp_path / "bin", tmp_path / "work"
    tools.mkdir()
    for name, place in (("kustomize", 2), ("helm", 3)):
        (tools / name).write_text(f'#!/bin/sh\nexec /bin/cat "${place}/out"\n')
        (tools / name).chmod(0o755)
    for name, text in (("app", POLICY), ("cluster", CLUSTER)):
        (work / name).mkdir(parents=True)
        (work / name / "out").write_text(text)
    (work / "shop.intent").write_text(INTENT)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.chdir(work)
    first_commit()
    return work


def edit() -> None:
    Path("app/out").write_text(POLICY.replace("app: web", "app: api"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("kustomize:git:HEAD:app", "kustomize:app"),
        ("kustomize:git:HEAD", "kustomize:app"),
        ("git:HEAD", "kustomize:./app"),
        ("git:HEAD", "helm:app"),
        ("helm:git:HEAD:app", "helm:app"),
        ("kustomize:git:HEAD:app", "app/out"),
        ("kustomize:app", "git:HEAD"),
    ],
)
def test_diff_of_a_commit_and_the_work_tree(old: str, new: str) -> None:
    same = policyc_here("diff", old, new)
    assert same.returncode == 0, same.stderr
    edit()
    done = policyc_here("diff", old, new, "--format", "json")
    assert done.returncode == 1, done.stderr
    shown = json.loads(done.stdout)
    assert len(shown["differences"]) == 2
    tool = "helm" if "helm" in old + new else "kustomize"
    assert f"<{tool} git:HEAD:app>" in done.stdout


def test_a_new_kustomization_has_no_policies_before() -> None:
    """As with paths: only where the commit takes the path of the other side."""
    shutil.copytree("app", "new")
    for old in ("git:HEAD", "kustomize:git:HEAD"):
        done = policyc_here("diff", old, "kustomize:new")
        assert done.returncode == 1 and "warning[PC0124]" in done.stderr
    done = policyc_here("diff", "kustomize:git:HEAD:new", "kustomize:new")
    assert done.returncode == 2 and "error[PC0124]" in done.stderr


def test_diff_reads_clusters_that_are_rendered() -> None:
    edit()
    done = policyc_here(
        *("diff", "git:HEAD", "kustomize:app"),
        *("--cluster-old", "kustomize:git:HEAD:cluster", "--cluster-new", "helm:cluster"),
    )
    assert done.returncode == 1 and "1 region closed" in done.stdout, done.stderr


def test_equiv() -> None:
    assert policyc_here("equiv", "kustomize:app", "helm:app").returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--kustomize", "app"),
        ("check", "--helm", "app", "--helm-values", "v.yaml", "--cluster", "helm:cluster"),
        ("check", "-f", "helm:app", "--format", "sarif"),
        ("eval", "--kustomize", "app", "--cluster", "kustomize:cluster", *FLOW),
        ("explain", *BOTH, *FLOW),
        ("list", *BOTH),
        ("verify", *BOTH, "--intents", "shop.intent"),
        ("convert", "--helm", "app", "--to", "calico"),
        ("compile", *BOTH, "--emit", "decision-ir"),
        ("equiv", "helm:app", "app/out", "--helm-values", "v.yaml"),
    ],
)
def test_a_command_reads_rendered_sources(arguments: tuple[str, ...]) -> None:
    done = policyc_here(*arguments)
    assert done.returncode == 0, done.stderr


def test_the_options_are_short_for_sources() -> None:
    edit()
    long = policyc_here("check", *BOTH, "--format", "json")
    short = policyc_here("check", "--kustomize", "app", *BOTH[2:], "--format", "json")
    assert long.stdout == short.stdout and "<kustomize app>" in long.stdout


@pytest.mark.parametrize("option", ["--kustomize", "--helm"])
def test_the_options_take_the_place_of_configured_paths(option: str) -> None:
    Path(".policyc.yaml").write_text("paths: [none]\n")
    done = policyc_here("check", option, "app")
    assert done.returncode == 0 and "1 policy" in done.stdout, done.stderr
    assert policyc_here("check").returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check",), "give policies with -f, --kustomize or --helm"),
        (("eval", *FLOW), "give policies with -f, --kustomize or --helm"),
        (("check", "-f", "app", "--helm-values", "v"), "--helm-values needs a chart"),
        (("diff", "app", "app", "--helm-values", "v"), "--helm-values needs a chart"),
        (("check", "--helm", "app", "--helm-values", "-"), "--helm-values needs a file"),
    ],
)
def test_usage(arguments: tuple[str, ...], words: str) -> None:
    done = policyc_here(*arguments)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize(
    "arguments", [("check", "--helm", "app"), ("diff", "git:HEAD", "helm:app")]
)
def test_a_missing_tool(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "bin" / "helm").unlink()
    done = policyc_here(*arguments, "--format", "json")
    assert done.returncode == 3
    assert "error[PC0141]" in done.stderr
    assert "helm template NAME CHART | policyc ... -f -" in done.stderr
    shown = json.loads(done.stdout)
    assert (shown["kind"], shown["code"], shown["exit_code"]) == ("host", "PC0141", 3)


@pytest.mark.slow
def test_a_bundle_of_a_rendered_source_is_proved() -> None:
    assert run(["compile", *BOTH, "-o", "bundle"]) == 0
    done = policyc_here("prove", "bundle", *BOTH)
    assert done.returncode == 0, done.stderr
    edit()
    assert policyc_here("prove", "bundle", *BOTH).returncode != 0


def test_compile_with_a_cache_renders_anew() -> None:
    """No record of an earlier run stands for a rendered source."""

    def compiled(*options: str) -> dict[str, bytes]:
        assert run(["compile", *BOTH, "-o", "bundle", *options]) == 0
        return {
            each.name: each.read_bytes() for each in Path("bundle").rglob("*") if each.is_file()
        }

    before = compiled("--cache", "cache")
    assert compiled("--cache", "cache") == before
    edit()
    after = compiled("--cache", "cache")
    assert after != before
    assert after == compiled()
