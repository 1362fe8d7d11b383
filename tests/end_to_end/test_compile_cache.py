# SPDX-License-Identifier: Apache-2.0
"""`policyc compile --cache`: the same bytes as without it, whatever is in the cache."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.backends.ebpf_c import clang
from policyc.compiler.cli.main import run
from policyc.compiler.driver.compile import objects
from policyc.verifier.decision import outcome
from tests.bench import synthetic
from tests.slices import one_in

ROOT = Path(__file__).parents[2]


def write(path: Path, documents: list[dict[str, Any]]) -> None:
    path.write_text(yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False))


def compiled(folder: Path, out: str, *options: str) -> dict[str, bytes]:
    """The files of a bundle of the inputs in `folder`."""
    bundle = folder / out
    arguments = ["compile", "-f", str(folder / "p.yaml"), "--cluster", str(folder / "c.yaml")]
    assert run([*arguments, "-o", str(bundle), *options]) == 0
    return {str(p.relative_to(bundle)): p.read_bytes() for p in bundle.rglob("*") if p.is_file()}


def edit(rng: random.Random, policies: list[dict[str, Any]], spaces: list[str]) -> None:
    """One random change: a policy goes, comes, or says something else."""
    at = rng.randrange(len(policies))
    what = rng.randrange(4)
    if what == 0 and len(policies) > 3:
        del policies[at]
    elif what == 1:
        policies.append(synthetic._policy(rng, 1000 + rng.randrange(10**6), spaces))
    elif what == 2:
        name = policies[at]["metadata"]
        policies[at] = {**synthetic._policy(rng, 0, spaces), "metadata": name}
    else:
        policies[at]["metadata"]["annotations"] = {"moved": "the lines of what follows"}


@pytest.mark.parametrize("seed", one_in(3, range(3)))
def test_random_edits_give_the_same_bytes_with_and_without(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    policies, cluster = synthetic.objects(25, seed)
    write(tmp_path / "c.yaml", cluster)
    for _ in range(5):
        write(tmp_path / "p.yaml", policies)
        cached = compiled(tmp_path, "with", "--cache", str(tmp_path / "cache"))
        assert cached == compiled(tmp_path, "without")
        edit(rng, policies, ["ns0"])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    policies, cluster = synthetic.objects(8)
    write(tmp_path / "p.yaml", policies)
    write(tmp_path / "c.yaml", cluster)
    return tmp_path


def forbid(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError(f"{name} was called")

    monkeypatch.setattr(module, name, refuse)


def test_the_second_run_uses_neither_z3_nor_clang(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--cache", str(small / "cache"))
    first = compiled(small, "one", *options)
    objects._compiled.cache_clear()
    forbid(monkeypatch, outcome, "_judge")
    forbid(monkeypatch, clang, "_run")
    assert compiled(small, "two", *options) == first


def test_a_run_with_nothing_to_prove_does_not_load_z3(small: Path) -> None:
    compiled(small, "one", "--cache", str(small / "cache"))
    arguments = ["compile", "-f", str(small / "p.yaml"), "--cluster", str(small / "c.yaml")]
    arguments += ["-o", str(small / "two"), "--cache", str(small / "cache")]
    said = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "policyc.compiler.cli", *arguments],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "policyc.verifier.decision.outcome" in said
    assert "z3.z3core" not in said


def test_lines_that_move_leave_the_object_alone(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--cache", str(small / "cache"))
    first = compiled(small, "one", *options)
    (small / "p.yaml").write_text("# a comment\n" + (small / "p.yaml").read_text())
    objects._compiled.cache_clear()
    forbid(monkeypatch, outcome, "_judge")
    forbid(monkeypatch, clang, "_run")
    second = compiled(small, "two", *options)
    assert second["policy.bpf.o"] == first["policy.bpf.o"]
    assert second["policy.bpf.c"] != first["policy.bpf.c"], "its comments name lines"


@pytest.mark.parametrize(
    "damage",
    [b"garbage", *(pytest.param(each, marks=pytest.mark.slow) for each in (b"", b"\0" * 100))],
)
def test_damaged_entries_are_made_again(small: Path, damage: bytes) -> None:
    options = ("--cache", str(small / "cache"))
    first = compiled(small, "one", *options)
    entries = [path for path in (small / "cache" / "v1").rglob("*") if path.is_file()]
    assert len(entries) >= 3
    whole = {path: path.read_bytes() for path in entries}
    for path in entries:
        path.write_bytes(damage)
    assert compiled(small, "two", *options) == first
    assert {path: path.read_bytes() for path in entries} == whole


def test_a_wrong_decision_is_not_proved_by_a_cache(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache has the questions of the correct run. A wrong table has other questions."""
    from dataclasses import replace

    from policyc.compiler.driver.compile import compile as driver
    from policyc.compiler.driver.compile.pipeline import Decided

    options = ("--cache", str(small / "cache"))
    compiled(small, "one", *options)
    write(small / "p.yaml", synthetic.objects(9)[0])  # one more, so that all are read
    honest = driver.decide_read

    def corrupted(*arguments: Any) -> Decided:
        decided = honest(*arguments)
        decision = decided.decision
        wrong = replace(decision, ingress=decision.egress, egress=decision.ingress)
        return replace(decided, decision=wrong)

    monkeypatch.setattr(driver, "decide_read", corrupted)
    arguments = ["compile", "-f", str(small / "p.yaml"), "--cluster", str(small / "c.yaml")]
    assert run([*arguments, "-o", str(small / "two"), *options]) == 3
    assert not (small / "two").exists()


def test_an_unusable_cache_is_reported_before_any_work(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "file").write_text("")
    arguments = ["compile", "-f", str(small / "p.yaml"), "-o", str(small / "one")]
    assert run([*arguments, "--cache", str(small / "file" / "cache")]) == 2
    assert "PC0913" in capsys.readouterr().err
    assert run([*arguments, "--cache", str(small / "file")]) == 2
    assert not (small / "one").exists()


def test_an_unwritable_cache_is_reported(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", "-f", str(small / "p.yaml"), "-o", str(small / "one")]
    assert run([*arguments, "--cache", "/proc/self/cache"]) == 2  # not even root may
    assert "PC0913" in capsys.readouterr().err
    assert not (small / "one").exists()


def test_the_cache_stays_within_its_size(small: Path) -> None:
    options = ("--cache", str(small / "cache"), "--cache-size", "1")
    rng = random.Random(1)
    for run_at in range(3):
        for number in range(20):  # what others left
            path = small / "cache" / "v1" / "00" / f"{run_at}{number:063}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rng.randbytes(1 << 16))
        write(small / "p.yaml", synthetic.objects(8, seed=2 + run_at)[0])
        compiled(small, "one", *options)
    entries = [path for path in (small / "cache" / "v1").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in entries) <= 1 << 20
