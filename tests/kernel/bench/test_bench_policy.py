# SPDX-License-Identifier: Apache-2.0
"""The benchmark of verdicts runs, and its four builds agree on every flow."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.bench.policy_cases import bench_case

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.kernel


@pytest.mark.slow
def test_all_builds_give_the_same_verdicts_and_are_measured(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    sizes = ["--sizes", "1,60", "--kinds", "cidrs,mixed", "--rounds", "1"]
    done = subprocess.run(
        [
            sys.executable,
            str(BENCH / "policy.py"),
            *sizes,
            "--json",
            str(out),
            "--plot",
            str(tmp_path / "plot"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # a verdict that differs ends it
    rows = json.loads(out.read_text())["rows"]
    asked = {(row["contender"], row["question"], row["way"]) for row in rows}
    ours = {(who, what) for who in ("c", "llvm") for what in ("known", "looked up")}
    theirs = {("generic", "looked up"), ("linear", "looked up")}
    assert asked == {(*pair, way) for pair in ours | theirs for way in ("hot", "uniform", "cold")}
    assert {row["case"] for row in rows} == {"cidrs 1", "cidrs 60", "mixed 1", "mixed 60"}
    for suffix in (".svg", ".png", ".md"):
        assert (tmp_path / f"plot{suffix}").stat().st_size > 1000


@pytest.mark.slow
def test_thousands_of_blocks_give_the_verdicts_of_their_rules(tmp_path: Path) -> None:
    """Both backends split the address in two for their search. The expectation reads the rules
    alone.
    """
    policies, _ = bench_case("cidrs", 3000, 1).objects()
    (tmp_path / "policies.yaml").write_text(yaml.dump_all(policies))
    asked = ["compile", "-f", str(tmp_path / "policies.yaml"), "--explain-layout"]
    layout = subprocess.run(
        [sys.executable, "-m", "policyc.compiler.cli", *asked],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"egress IPv4 addresses \(\d+ runs\): fans", layout.stdout)
    sizes = ["--sizes", "3000", "--kinds", "cidrs", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, str(BENCH / "policy.py"), *sizes, "--without", "generic,linear"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cidrs 3000" in done.stdout and "llvm" in done.stdout


@pytest.mark.slow
def test_a_wrong_verdict_ends_the_benchmark(tmp_path: Path) -> None:
    source = (BENCH / "policy_generic.c").read_text()
    work = tmp_path / "bench"
    work.mkdir()
    for path in BENCH.iterdir():
        if path.is_file():
            (work / path.name).write_bytes(path.read_bytes())
    wrong = source.replace("&what) ? 1 : 2", "&what) ? 1 : 1")
    assert wrong != source
    (work / "policy_generic.c").write_text(wrong)
    done = subprocess.run(
        [
            sys.executable,
            str(work / "policy.py"),
            "--sizes",
            "20",
            "--kinds",
            "cidrs",
            "--rounds",
            "1",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "generic (looked up) answers 1 to flow" in done.stderr


@pytest.mark.slow
def test_the_operations_of_the_cost_table_are_measured(tmp_path: Path) -> None:
    from policyc.backends.ebpf_c import costs

    out = tmp_path / "costs.json"
    done = subprocess.run(
        [sys.executable, str(BENCH / "costs.py"), "--rounds", "1", "--json", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert set(found) == {"array", "node", "range", "fan", "buckets", "lpm", "code"}
    for name, curve in (("lpm", costs.LPM), ("code", costs.CODE)):
        assert {size for size, _, _ in found[name]} <= {size for size, _, _ in curve.points}
