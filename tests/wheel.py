# SPDX-License-Identifier: Apache-2.0
"""The wheel of this checkout, built once a run: a build writes into the checkout."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared import made_once

ROOT = Path(__file__).parents[1]


def built_wheel(temporary: pytest.TempPathFactory) -> Path:
    """The wheel, which the first worker that asks builds."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder)]
        subprocess.run([*command, str(ROOT)], check=True, capture_output=True)

    return next(made_once(temporary, "wheel", build).glob("policyc-*.whl"))
