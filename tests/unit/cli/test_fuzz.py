# SPDX-License-Identifier: Apache-2.0
"""`policyc fuzz`: its options, its exit codes, and its messages about wrong input."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.fuzz import hunt
from policyc.compiler.fuzz.stages import table
from policyc.ir.errors import HostError

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "online-shop"
SCHEMA = json.loads((ROOT / "docs/schemas/fuzz-v1.schema.json").read_text())
FEW = ["--examples", "6", "--backends", "decision,native"]
POLICY = """apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
"""
CASE = """schema: policyc.dev/fuzz-case/v1
flows: [{src: a/p0, dst: 192.0.2.1, protocol: tcp, port: 80, family: 4}]
objects:
- {apiVersion: v1, kind: Pod, metadata: {name: p0, namespace: a}, status: {podIP: 10.0.0.1}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: np, namespace: a},
   spec: {podSelector: {}, policyTypes: [Egress]}}
"""


@pytest.mark.slow
def test_the_same_seed_tries_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    said = []
    for seed in (5, 5, 6):
        assert run(["fuzz", "--seed", str(seed), *FEW, "--format", "json"]) == 0
        said.append(json.loads(capfd.readouterr().out))
        jsonschema.Draft202012Validator(SCHEMA).validate(said[-1])
    assert said[0] == said[1]
    assert said[0]["verdicts"] != said[2]["verdicts"]
    assert said[0]["examples"] == 6
    assert all(stage["answers"] > 100 for stage in said[0]["stages"])


@pytest.mark.parametrize("cluster", [True, False])
def test_own_policies_are_changed(cluster: bool, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["-f", str(SHOP / "policies")]
    given += ["--cluster", str(SHOP / "cluster")] if cluster else []
    assert run(["fuzz", *given, "--seed", "1", *FEW]) == 0
    said = capfd.readouterr()
    assert "6 examples" in said.out
    assert "suppressed by comments: 1 PC0503" in said.err, "as by other commands"


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    with file.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert run(["fuzz", "-f", "-", "--seed", "1", *FEW]) == 0


def test_errors_in_own_policies_are_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("port: 5432", "port: 70000"))
    assert run(["fuzz", "-f", str(file), *FEW]) == 2
    assert "policy.yaml:6:" in capfd.readouterr().err


def test_a_cluster_without_pods_leaves_nothing_to_try(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    )
    given = ["-f", str(tmp_path / "policy.yaml"), "--cluster", str(tmp_path / "cluster.yaml")]
    assert run(["fuzz", *given, *FEW]) == 2
    assert "PC0919" in capfd.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--backends", "decision,kernel"],
        ["--replay", "x", "-f", "y"],
        ["--replay", "x", "--seed", "0"],
        ["--cluster", "x"],
        ["--seconds", "0"],
        ["--examples", "0"],
    ],
)
def test_wrong_usage(options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["fuzz", *options]) == 2
    assert "Error:" in capfd.readouterr().err


def test_fuzz_refuses_a_requested_stage_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run(["fuzz", "--backends", "kernel-c"]) == 3
    assert "by root alone" in capfd.readouterr().err
    case = ["--examples", "1", "--seed", "1"]
    assert run(["fuzz", *case]) == 0
    assert "kernel-c      left out: programs are loaded by root alone" in capfd.readouterr().out


def test_a_compiler_that_is_missing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def missing(_self: object) -> None:
        raise HostError("clang was not found", "install it")

    monkeypatch.setattr(table.Target, "require", missing)
    assert run(["fuzz", "--backends", "executor-c"]) == 3
    assert "executor-c cannot run: clang was not found" in capfd.readouterr().err


def test_an_interrupt_ends_with_the_summary(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    seen = []
    read = hunt.read_draw

    def interrupted(*given: object) -> object:
        seen.append(given)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)
        return read(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(hunt, "read_draw", interrupted)
    assert run(["fuzz", "--seconds", "60", "--seed", "1", "--backends", "decision"]) == 130
    out = capfd.readouterr().out
    assert "3 examples" in out
    assert "interrupted" in out


def test_a_case_is_replayed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    assert run(["fuzz", "--replay", str(file), "--replay", str(file)]) == 0
    assert "replayed 2 cases, 2 flows" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "code", "place"),
    [
        ("fuzz-case/v1", "fuzz-case/v9", "PC0918", ":1:9:"),
        ("objects:", "object:", "PC0202", ":3:1:"),
        ("flows:", "layout: odd\nflows:", "PC0918", ":2:9:"),
        ("flows:", "later: x\nflows:", "PC0201", ":2:8:"),
        ("flows:", "options: {channel: x}\nflows:", "PC0918", ":2:20:"),
        ("port: 80,", "port: x,", "PC0701", ":2:9:"),
        ("src: a/p0", "src: a/p1", "PC0702", ":2:9:"),
        ("kind: Pod", "kind: Pot", "PC03", "case.yaml>"),
        ("objects:", "---\nobjects:", "PC0918", ""),
    ],
)
def test_replay_of_an_invalid_case_is_refused_with_its_position(
    old: str, new: str, code: str, place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(CASE.replace(old, new))
    assert run(["fuzz", "--replay", str(file)]) == 2
    said = capfd.readouterr().err
    assert code in said
    assert place in said


def test_replay_of_a_missing_case_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["fuzz", "--replay", "no/such/file"]) == 2
    assert "PC0101" in capfd.readouterr().err


WITHOUT_HYPOTHESIS = """\
import sys
sys.modules["hypothesis"] = None
from policyc.compiler.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_without_hypothesis_cases_are_replayed_and_nothing_is_searched(tmp_path: Path) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(CASE)

    def said(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-c", WITHOUT_HYPOTHESIS, "fuzz", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    code, text = said("--backends", "decision")
    assert code == 3
    assert "not installed: hypothesis" in text
    assert "pip install 'policyc[fuzz]'" in text
    assert said("--replay", str(file), "--backends", "decision")[0] == 0
