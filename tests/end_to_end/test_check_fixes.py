# SPDX-License-Identifier: Apache-2.0
"""`policyc check --fix` and `--diff` as a user runs them, in a git repository."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from policyc.compiler.cli import check as check_command
from policyc.compiler.cli.fixes import write_fixes
from policyc.compiler.cli.main import run
from policyc.compiler.driver.check.fixes.plan import Plan
from tests.commits import first_commit
from tests.end_to_end.command import policyc_here

HEAD = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: %s, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
"""
RULE = "  - ports: [{port: 80}] # http\n"
WINDOWS = """\
  policyTypes: [Egress]
  egress: [{ports: [{port: 80, endPort: 90}]}, {ports: [{port: 81}]}]
"""
FILES = {
    "policies/db one.yaml": f"# ours\n\n---\n{HEAD % 'a-db'}  ingress:\n{RULE}{RULE}---\n{HEAD % 'copy'}"
    f"  ingress:\n{RULE.strip(chr(10))}",
    "policies/deny.yaml": HEAD % "deny",
    "policies/deny-again.yaml": HEAD % "deny-again",
    "policies/windows.yaml": (HEAD % "dos" + WINDOWS).replace("\n", "\r\n"),
}
NARROW = """\
  - toCIDR: [10.0.0.0/8]
    toPorts: [{ports: [{port: "80", protocol: TCP}]}]
"""
CILIUM = f"""\
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {{name: all}}
spec:
  priority: 5
  subject: {{namespaces: {{}}}}
  ingress: [{{name: all, action: Allow, from: [{{namespaces: {{}}}}]}}]
---
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {{name: db, namespace: shop}}
spec:
  endpointSelector: {{matchLabels: {{app: db}}}}
  ingress:
  - fromEndpoints: [{{matchLabels: {{app: web}}}}]
  egress:
{NARROW}  - toCIDR: [10.0.0.0/8]
"""
CHECK = ("check", "-f", "policies")
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop, labels: {app: db}}
spec: {containers: [{name: db, image: db}]}
status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}
"""
GONE = HEAD % "db" + RULE.join(
    ["  ingress:\n", "  - from: [{podSelector: {matchLabels: {a: b}}}]\n"]
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with policies, in a subdirectory of it."""
    root = tmp_path / "root" / "sub"
    write(root, FILES)
    monkeypatch.chdir(root.parent)
    first_commit()
    monkeypatch.chdir(root)
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())


def tree(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def test_git_apply_of_the_patch_gives_the_same_as_fix(here: Path) -> None:
    before = tree(here)
    shown = policyc_here(*CHECK, "--diff")
    assert shown.returncode == 1 and tree(here) == before
    assert "offered" in shown.stderr
    subprocess.run(["git", "apply"], input=shown.stdout.encode(), check=True)
    by_patch = tree(here)
    assert by_patch != before
    write(here, {name: data.decode() for name, data in before.items()})
    done = policyc_here(*CHECK, "--fix")
    assert tree(here) == by_patch
    assert "4 fixes in 3 files written" in done.stdout
    again = policyc_here(*CHECK, "--format", "json")
    codes = {each["code"] for each in json.loads(again.stdout)["findings"]}
    assert not codes & {"PC2001", "PC2002", "PC2003", "PC2010", "PC2011"}
    assert again.returncode == done.returncode == (1 if codes else 0)


def test_nothing_but_useless_text_is_removed(here: Path) -> None:
    policyc_here(*CHECK, "--fix")
    found = tree(here)
    assert "policies/deny-again.yaml" not in found
    kept = FILES["policies/db one.yaml"].partition(f"{RULE}---")[0]
    assert found["policies/db one.yaml"].decode() == kept
    windows = FILES["policies/windows.yaml"].replace(", {ports: [{port: 81}]}", "")
    assert found["policies/windows.yaml"].decode() == windows


def test_the_report_of_fix_is_about_what_is_left(here: Path) -> None:
    done = policyc_here(*CHECK, "--fix", "--format", "json")
    notes = json.loads(done.stdout)["notes"]
    assert notes[0].startswith(
        "4 fixes in 3 files written; no verdict and no effect changes for every"
    )
    assert any("is deleted" in note for note in notes)


def test_without_fixes_the_patch_is_empty(here: Path) -> None:
    write(here, {"clean.yaml": HEAD % "a"})
    shown = policyc_here("check", "-f", "clean.yaml", "--diff")
    assert (shown.stdout, shown.returncode) == ("", 0)
    done = policyc_here("check", "-f", "clean.yaml", "--fix")
    assert "no fix written" in done.stdout


def test_a_patch_says_that_it_holds_for_one_cluster(here: Path) -> None:
    write(here, {"db.yaml": GONE, "pods.yaml": POD, ".policyc.yaml": "cluster: [pods.yaml]\n"})
    shown = policyc_here("check", "-f", "db.yaml", "--cluster", "pods.yaml", "--diff")
    assert "1 fix in 1 file. No verdict and no effect changes for the given cluster" in shown.stdout
    configured = policyc_here("check", "-f", "db.yaml", "--diff")
    assert configured.stdout == "" and "the command line does not name" in configured.stderr
    policyc_here("check", "-f", "db.yaml", "--cluster", "pods.yaml", "--fix")
    assert (
        "app: db" in (here / "db.yaml").read_text() and "a: b" not in (here / "db.yaml").read_text()
    )


def test_other_sources_are_reported_and_stay(here: Path) -> None:
    text = FILES["policies/db one.yaml"]
    given = policyc_here("check", "-f", "-", "--diff", stdin=text)
    assert given.stdout == "" and "not fixed: it was read from standard input" in given.stderr
    of_commit = policyc_here("check", "-f", "git:HEAD:sub/policies", "--diff")
    assert of_commit.stdout == "" and "not fixed: it was read from a commit" in of_commit.stderr


def test_rules_of_other_apis_are_removed(here: Path) -> None:
    """The last rule of a Cilium policy stays: without rules it would not isolate."""
    write(here, {"c.yaml": CILIUM})
    policyc_here("check", "-f", "c.yaml", "--fix")
    assert (here / "c.yaml").read_text() == CILIUM.replace(NARROW, "")


def test_fix_keeps_the_mode_of_files(here: Path) -> None:
    file = here / "policies" / "db one.yaml"
    file.chmod(0o640)
    policyc_here(*CHECK, "--fix")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_file_outside_is_not_named_in_a_patch(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "empty").mkdir()
    monkeypatch.chdir(here / "empty")
    assert run(["check", "-f", str(here / "policies"), "--diff"]) == 2
    assert "PC2094" in capfd.readouterr().err


def test_no_file_is_written_if_one_changed_since_it_was_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(plan: Plan) -> None:
        (here / "policies" / "windows.yaml").write_text("changed\n")
        write_fixes(plan)

    before = tree(here)
    monkeypatch.setattr(check_command, "write_fixes", change)
    done = policyc_here(*CHECK, "--fix")
    assert done.returncode == 2 and "it changed since it was read" in done.stderr
    assert tree(here) == before | {"policies/windows.yaml": b"changed\n"}


@pytest.mark.parametrize("options", [("--fix", "--diff"), ("--diff", "--format", "json")])
def test_options_that_contradict_each_other_are_usage_errors(
    here: Path, options: tuple[str, ...]
) -> None:
    before = tree(here)
    assert policyc_here(*CHECK, *options).returncode == 2
    assert tree(here) == before


def test_a_patch_goes_to_the_file_of_output(here: Path) -> None:
    shown = policyc_here(*CHECK, "--diff", "-o", "fix.patch")
    assert shown.stdout == ""
    subprocess.run(["git", "apply", "--check", "fix.patch"], check=True)
