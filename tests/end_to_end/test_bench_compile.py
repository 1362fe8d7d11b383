# SPDX-License-Identifier: Apache-2.0
"""The benchmark of compile runs, and compares the bundles that it makes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = Path(__file__).parents[1] / "bench" / "compile.py"


@pytest.mark.slow
def test_every_case_is_measured(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, str(COMPILE), "20", "--json", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert [row["case"] for row in rows] == [
        "Python alone",
        "no cache",
        "empty cache",
        "full cache, same input",
        "full cache, one policy changed",
    ]
    assert all(row["cpu_s"] > 0 and row["peak_mb"] > 0 for row in rows)
    assert len(done.stdout.splitlines()) == 6
