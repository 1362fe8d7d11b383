# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the native evaluator runs; it compares the answers of every variant itself."""

import json
import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "bench" / "native.py"


def test_every_variant_is_measured_and_agrees(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, str(NATIVE), "40", "--flows", "20000", "--json", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(out.read_text())
    assert [row["ends"] for row in rows] == ["pods", "any"]
    for row in rows:
        assert set(row["mflows_s"]) == {"native", "numpy", "python", "semantics"}
        assert all(rate > 0 for rate in row["mflows_s"].values())
        assert row["over"]["python"] > 10
        assert row["raw_addresses_m_s"] > 0
    assert len(done.stdout.splitlines()) == 3
