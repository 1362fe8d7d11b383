# SPDX-License-Identifier: Apache-2.0
"""Untrusted input cannot act on the terminal, the log or the page that shows it."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from policyc.compiler.cli import main

ACTS = re.compile(
    r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)
NASTY = "A\n::error::x\r\x1b[2J\u202eb\u2066\u200b\u2028##[error]y\x7f\x9b"
QUOTED = json.dumps(NASTY)
"""NASTY as a double-quoted string of YAML."""
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}
"""
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c}]}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: c}]}
status: {podIP: 10.0.0.2}
"""
INTENT = """\
apiVersion: policyc.dev/v1alpha1
kind: Intent
metadata: {name: ends}
spec:
  intents: |
    never tcp/80 from pod.app == "db" to pod.app == "web"
"""
Done = subprocess.CompletedProcess[bytes]
Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`good` has a policy and `pods.yaml` two pods."""
    (tmp_path / "good").mkdir()
    (tmp_path / "good/a.yaml").write_text(POLICY)
    (tmp_path / "bad").mkdir()
    (tmp_path / "pods.yaml").write_text(PODS)
    return tmp_path


@pytest.fixture
def policyc(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs policyc in the folder, in this process. Its streams encode as those of a process."""

    def run(*arguments: str) -> Done:
        out, err = io.BytesIO(), io.BytesIO()
        stdout = io.TextIOWrapper(out, "utf-8", "surrogateescape")
        stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace")
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(sys, "stdout", stdout)
            patch.setattr(sys, "stderr", stderr)
            code = main.run(list(arguments))
        stdout.flush()
        stderr.flush()
        return Done(arguments, code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def process(folder: Path) -> Run:
    """Runs policyc in the folder, as a process."""

    def run(*arguments: str) -> Done:
        return subprocess.run(
            [sys.executable, "-m", "policyc.compiler.cli", *arguments],
            cwd=folder,
            capture_output=True,
            timeout=120,
            check=False,
        )

    return run


def shown(done: Done) -> str:
    """All that was written; strict, as a surrogate or a broken byte would not be read by others."""
    assert b"Traceback" not in done.stderr
    return done.stdout.decode() + done.stderr.decode()


def assert_harmless(text: str) -> None:
    assert not ACTS.search(text), ascii(text)
    assert not COMMAND.search(text), text


FLOW = ("10.0.0.1", "10.0.0.2", "tcp/80")
COMMANDS: dict[str, tuple[str, ...]] = {
    "compile": ("compile", "-f", "bad", "--emit", "policy-ir"),
    "compile json": ("compile", "-f", "bad", "-o", "out", "--format", "json"),
    "cluster": ("compile", "-f", "good", "--cluster", "bad", "--emit", "policy-ir"),
    "eval": ("eval", "-f", "bad", *FLOW),
    "eval json": ("eval", "-f", "bad", *FLOW, "--format", "json"),
    "list csv": ("list", "-f", "bad", "--cluster", "pods.yaml", "--format", "csv"),
    "list dot": ("list", "-f", "bad", "--cluster", "pods.yaml", "--format", "dot"),
    "convert": ("convert", "-f", "bad", "--to", "calico"),
    "fmt": ("fmt", "bad"),
    "fmt diff": ("fmt", "--diff", "bad"),
    **{
        f"{command[0]} {form}": (*command, "--format", form)
        for command in (
            ("check", "-f", "bad"),
            ("diff", "good", "bad"),
            ("equiv", "good", "bad"),
            ("verify", "-f", "good", "--intents", "bad"),
            ("explain", "-f", "bad", *FLOW),
            ("list", "-f", "bad", "--cluster", "pods.yaml"),
        )
        for form in ("text", "json", "sarif", "markdown")
        if (command[0], form)
        not in {("equiv", "sarif"), ("equiv", "markdown"), ("list", "sarif")}
        | {("explain", "sarif"), ("explain", "markdown")}
    },
}
WRONG = {
    "kind": f"apiVersion: example.com/v1\nkind: {QUOTED}\nmetadata: {{name: x}}\n",
    "apiVersion": f"apiVersion: {QUOTED}\nkind: NetworkPolicy\n",
    "field": POLICY + f"{QUOTED}: 1\n",
    "name": POLICY.replace("name: web", f"name: {QUOTED}"),
    "label": POLICY.replace("{app: web}", f"{{app: {QUOTED}}}"),
    "protocol": POLICY.replace("{}}]}", f"{{}}}}], ports: [{{protocol: {QUOTED}}}]}}"),
    "line": POLICY + "wrong: 'a\u202eb\u2066\u200b ##[error]c'\n",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_error_is_escaped(command: tuple[str, ...], policyc: Run, tmp_path: Path) -> None:
    """Every kind of free text at once, each in a file whose name has it, too."""
    for what, text in WRONG.items():
        (tmp_path / f"bad/{what}\n::warning::{what}\x1b\u202e.yaml").write_text(text)
    (tmp_path / "bad/\n::error::t.intent").write_text("intent \x1b \u202e\n")
    done = policyc(*command)
    text = shown(done)
    assert_harmless(text)
    assert "fmt" in command or done.returncode == 2
    if "fmt" not in command:
        assert r"\u202e" in text


@pytest.mark.parametrize("what", WRONG)
def test_escaped_output_is_readable(what: str, policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "bad/a.yaml").write_text(WRONG[what])
    done = policyc("compile", "-f", "bad", "--emit", "policy-ir")
    assert done.returncode == 2
    assert_harmless(shown(done))
    assert r"\u202e" in done.stderr.decode()


def test_a_kind_that_looks_like_a_log_command_is_escaped(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "bad/a.yaml").write_text(
        'apiVersion: example.com/v1\nkind: "A\\n::error::x"\nmetadata: {name: x}\n'
    )
    done = policyc("compile", "-f", "bad", "--emit", "policy-ir")
    first = done.stderr.decode().splitlines()[0]
    assert first.endswith(r"unknown kind A\n::error::x of example.com/v1")


def test_a_file_whose_name_is_a_command(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "::error::x.yaml").write_text("a: 1\n")
    for command in (("compile", "--emit", "c", "-f"), ("check", "-f"), ("fmt",)):
        done = policyc(*command, "::error::x.yaml")
        assert_harmless(shown(done))
    done = policyc("check", "-f", "::error::x.yaml")
    assert done.stderr.startswith(rb"\x3a:error::x.yaml:1:1: error[PC0301]")


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-\n::error::\x1b[0m\u202e",),
        ("compile", "--no-\n::error::x\u202e"),
        ("compile", "-f", "good", "--format", "a\n::error::x"),
        ("compile", "-f", "good", "extra\n::error::x\u202e"),
        ("compile", "-f", "missing\n::error::x\u202e"),
        ("compile", "-f", "good", "-n", "a\n::error::x"),
        ("compile", "-f", "good", "--kube-version", "1\n::error::x"),
        ("compile", "-f", "good", "--backend", "llvm", "-o", "no/such\n::error::x"),
        ("eval", "-f", "good", "a\n::error::x", "b\u202e", "tcp/80\n::error::x"),
        ("explain", "-f", "good", "a\n::error::x", "b\u202e", "tcp/80"),
        ("check", "-f", "good", "-o", "no\n::error::x/such"),
        ("diff", "git:no\n::error::x\u202e", "good"),
        ("diff", "git:-\n::error::x", "good"),
        ("equiv", "--check", "no\n::error::x", "good", "good"),
        ("prove", "no\n::error::x\u202e", "-f", "good"),
        ("fmt", "no\n::error::x"),
        ("schema", "no\n::error::x"),
    ],
    ids=lambda arguments: arguments[0].split("\n")[0],
)
def test_arguments_are_escaped(arguments: tuple[str, ...], policyc: Run) -> None:
    done = policyc(*arguments)
    assert done.returncode in (0, 2, 3)
    assert_harmless(shown(done))


RESULTS: dict[str, tuple[str, ...]] = {
    "policy-ir": ("compile", "-f", "bad", "--emit", "policy-ir"),
    "c": ("compile", "-f", "bad", "--emit", "c"),
    "compile": ("compile", "-f", "bad", "--backend", "llvm", "-o", "out"),
    "eval": ("eval", "-f", "bad", "--cluster", "pods.yaml", "shop/db", "shop/web", "tcp/80"),
    "explain": ("explain", "-f", "bad", "--cluster", "pods.yaml", "shop/db", "shop/web", "tcp/80"),
    **{f"check {f}": ("check", "-f", "bad", "--format", f) for f in ("text", "sarif", "markdown")},
    **{f"diff {f}": ("diff", "good", "bad", "--format", f) for f in ("text", "sarif", "markdown")},
    "equiv": ("equiv", "good", "bad"),
    **{
        f"list {f}": (
            "list", "-f", "bad", "--cluster", "pods.yaml", "--exposure", "--format", f
        )
        for f in ("text", "markdown", "csv", "dot", "json")
    },
}  # fmt: skip


@pytest.mark.parametrize("command", RESULTS.values(), ids=RESULTS)
def test_a_result_is_escaped(command: tuple[str, ...], policyc: Run, tmp_path: Path) -> None:
    """Right policies, in a file whose name acts, with comments that do."""
    text = POLICY.replace("{}}]}", "{matchLabels: {app: cache}}}]}")
    name = "bad/a\n::error::x\r\x1b[2J\u202e##[error].yaml"
    (tmp_path / name).write_text(f"# \u202e ::error::\n{text}")
    done = policyc(*command)
    assert done.returncode in (0, 1)
    assert_harmless(shown(done).replace("\t", " ") if "c" in command else shown(done))


def test_json_has_the_true_values(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "bad/a\n\u202e\x7f##[b].yaml").write_text("kind: Pod\n")
    done = policyc("compile", "-f", "bad", "-o", "out", "--format", "json")
    assert_harmless(shown(done))
    found = json.loads(done.stdout)
    assert {each["file"] for each in found["diagnostics"]} == {"bad/a\n\u202e\x7f##[b].yaml"}


def test_fmt_does_not_change_data(policyc: Run, tmp_path: Path) -> None:
    text = INTENT.replace("name: ends", f'name: ends, annotations: {{a: {QUOTED}, "b": "  ::x::"}}')
    (tmp_path / "bad/a.yaml").write_text(text.replace("from pod", "from   pod"))
    assert_harmless(shown(policyc("fmt", "--diff", "bad")))
    assert policyc("fmt", "bad").returncode == 0
    read = yaml.safe_load((tmp_path / "bad/a.yaml").read_text())
    assert read["metadata"]["annotations"]["a"] == NASTY


def test_a_context_line_of_fmt_is_no_command(policyc: Run, tmp_path: Path) -> None:
    text = INTENT.replace("from pod", "from   pod")
    (tmp_path / "a.yaml").write_text(text.replace("spec:", "::error::x: 1\nspec:"))
    done = policyc("fmt", "--diff", "a.yaml")
    assert rb"\x3a:error::x: 1" in done.stdout
    assert_harmless(shown(done))


def test_a_picture_of_a_listing_escapes_file_names(policyc: Run, tmp_path: Path) -> None:
    (tmp_path / "bad/a\n::error::x\u202e.yaml").write_text(POLICY)
    done = policyc("list", "-f", "bad", "--cluster", "pods.yaml", "--format", "svg")
    assert done.returncode == 0
    assert_harmless(shown(done))


def test_a_name_that_is_not_utf8_is_escaped(process: Run, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad/\xff\xfe.yaml")).write_text("kind: Pod\n")
    for command in (("check", "-f", "bad"), ("check", "-f", "\udcff"), ("fmt", "\udcff")):
        text = shown(process(*command))
        assert_harmless(text)
        assert r"\xff" in text
