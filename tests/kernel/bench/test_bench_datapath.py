# SPDX-License-Identifier: Apache-2.0
"""The traffic benchmark runs: every bed comes up, traffic passes each, and nothing is left."""

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from policyc.runtime.lab.namespaces import stale_labs
from tests.kernel.lab.left import nothing_is_left_since

BENCH = Path(__file__).parents[2] / "bench"

pytestmark = pytest.mark.kernel


@pytest.mark.slow
def test_traffic_gets_through_every_bed(tmp_path: Path) -> None:
    before = stale_labs()
    out, plot = tmp_path / "rows.json", tmp_path / "plot"
    sizes = ["--policies", "1,20", "--services", "1,20", "--combined", "3x20"]
    short = ["--rounds", "2", *sizes, "--share", "0.01"]
    done = subprocess.run(
        [
            sys.executable,
            str(BENCH / "datapath.py"),
            *short,
            "--json",
            str(out),
            "--plot",
            str(plot),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())["rows"]
    assert len({row["bed"] for row in rows}) == 15
    ways = {"udp", "request", "connect", "http", "keepalive", "stream"}
    assert {(row["family"], row["way"]) for row in rows} == {*product((4, 6), ways)}
    assert all(len(row["ratios"]) == 2 and row["cpu_ns"] > 0 for row in rows)
    assert all(row["ratio"] == 1 for row in rows if row["bed"] == "plain routing")
    for suffix in (".svg", ".png", ".md"):
        assert plot.with_suffix(suffix).stat().st_size > 500
    assert nothing_is_left_since(before)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        pytest.param("udp", "pingpong: no answer", marks=pytest.mark.slow),
        pytest.param("http", "not every request was answered", marks=pytest.mark.slow),
    ],
)
def test_traffic_that_does_not_get_through_ends_the_benchmark(
    tmp_path: Path, way: str, said: str
) -> None:
    """A bed that drops must not be the fastest of all."""
    for path in BENCH.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    beds = tmp_path / "datapath_beds.py"
    allowed = '{"podSelector": {"matchLabels": {"app": "client"}}}'
    text = beds.read_text()
    assert allowed in text
    beds.write_text(text.replace(allowed, allowed.replace("client", "nobody")))
    sizes = ["--policies", "1", "--services", "", "--combined", ""]
    short = ["--rounds", "1", *sizes, "--share", "0.01", "--ways", way]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "datapath.py"), *short],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("this project, 1 policy")
    assert said in done.stderr
