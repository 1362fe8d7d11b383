# SPDX-License-Identifier: Apache-2.0
"""The benchmark of diff and check runs, and its policy changes have their documented effect."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCALE = Path(__file__).parents[1] / "bench" / "scale.py"
PEER = """\
#!/bin/sh
cat "$3"/*.yaml "$5"/*.yaml
"""


@pytest.mark.slow
def test_every_task_is_measured_and_its_outcome_checked(tmp_path: Path) -> None:
    peer = tmp_path / "peer"
    peer.write_text(PEER)
    peer.chmod(0o755)
    out = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, str(SCALE), "60", "--json", str(out), "--peer", str(peer)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = {row["task"]: row for row in json.loads(out.read_text())}
    outcomes = {task: row["outcome"] for task, row in rows.items()}
    assert outcomes == {
        "one-rule": "widened",
        "refactor": "equal",
        "bug": "widened",
        "check": "",
        "symbolic": "",
        "list": "",
    }
    assert rows["refactor"]["differences"] == 0
    assert rows["bug"]["replayed"] == rows["bug"]["differences"] > 0
    assert rows["check"]["differences"] >= rows["check"]["removable"] > 0
    for row in rows.values():
        assert all(part["peak_mb"] > 0 for part in row["stages"].values())
        assert ("peer" in row) == (row["task"] not in ("check", "symbolic", "list"))
    assert rows["bug"]["peer"]["status"] == "exit 0"
    assert rows["bug"]["peer"]["output_bytes"] > 10_000  # it was given the files of both sides
    assert len(done.stdout.splitlines()) == 7
