# SPDX-License-Identifier: Apache-2.0
"""Lint, as one more test: it uses the time in which tests of the datapath wait."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_passes_lint() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "lint"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
