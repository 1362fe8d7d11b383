# SPDX-License-Identifier: Apache-2.0
"""A comment that suppresses a warning in `check` suppresses it in every command."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from tests.commits import first_commit

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {}
  egress: [{}]   # policyc:ignore=PC0503 both directions are meant
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
spec: {containers: [{name: db}]}
status: {podIP: 10.0.0.1}
"""
SAID = "policyc: suppressed by comments: 1 PC0503\n"
COMMANDS = [
    ("compile", "-f", "p.yaml", "--emit", "policy-ir"),
    ("list", "-f", "p.yaml", "--cluster", "c.yaml"),
    ("eval", "-f", "p.yaml", "198.51.100.1", "198.51.100.2", "tcp/80"),
    ("convert", "-f", "p.yaml", "--to", "calico"),
    ("diff", "p.yaml", "p.yaml"),
    ("equiv", "p.yaml", "p.yaml"),
    ("explain", "-f", "p.yaml", "--cluster", "c.yaml", "198.51.100.1", "shop/db", "tcp/80"),
]


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(POLICY)
    Path("c.yaml").write_text(POD)


Run = Callable[..., tuple[str, str]]


@pytest.fixture
def policyc(capfd: pytest.CaptureFixture[str]) -> Run:
    def runs(*arguments: str) -> tuple[str, str]:
        capfd.readouterr()
        assert run(list(arguments)) in (0, 1)
        shown = capfd.readouterr()
        return shown.out, shown.err

    return runs


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_warning_is_counted_and_not_shown(policyc: Run, command: tuple[str, ...]) -> None:
    _, err = policyc(*command)
    assert "PC0503]" not in err
    assert SAID in err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_the_comment_it_is_shown(policyc: Run, command: tuple[str, ...]) -> None:
    Path("p.yaml").write_text(POLICY.replace("ignore", "note"))
    _, err = policyc(*command)
    assert "p.yaml:6:3: warning[PC0503]" in err
    assert "suppressed" not in err


def test_files_of_commits_are_read_again(policyc: Run) -> None:
    first_commit()
    Path("p.yaml").write_text(POLICY.replace("ignore", "note"))
    _, err = policyc("diff", "git:main:p.yaml", "p.yaml")
    assert err.count("warning[PC0503]") == 1
    assert "\np.yaml:6:3: warning[PC0503]" in f"\n{err}"
    assert SAID in err


def test_a_comment_about_another_code_or_line_suppresses_nothing(policyc: Run) -> None:
    for wrong in (
        POLICY.replace("PC0503 b", "PC2003 b"),
        POLICY.replace("{}]   #", "{}]\n  # x #"),
    ):
        Path("p.yaml").write_text(wrong)
        assert "warning[PC0503]" in policyc("compile", "-f", "p.yaml", "--emit", "policy-ir")[1]


def test_json_leaves_it_out_as_well(policyc: Run, tmp_path: Path) -> None:
    command = ("compile", "-f", "p.yaml", "-o", "bundle", "--backend", "llvm", "--format", "json")
    for cache in ((), ("--cache", "cache"), ("--cache", "cache")):
        out, err = policyc(*command, *cache)
        assert json.loads(out)["diagnostics"] == []
        assert SAID in err
    Path("p.yaml").write_text(POLICY.replace("ignore", "note"))
    (found,) = json.loads(policyc(*command)[0])["diagnostics"]
    assert found["code"] == "PC0503"


def test_errors_stay(policyc: Run, capfd: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text(POLICY.replace("[{}]   #", "[{tos: 1}]   #"))
    assert run(["compile", "-f", "p.yaml", "--emit", "policy-ir"]) == 2
    assert "error[" in capfd.readouterr().err
