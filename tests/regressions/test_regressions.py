# SPDX-License-Identifier: Apache-2.0
"""Every case that the fuzzer has found stays mended: all stages agree about it."""

from pathlib import Path

import pytest

from policyc.compiler.fuzz.regression import read_regression
from policyc.compiler.fuzz.replay import replayed
from policyc.compiler.fuzz.stages.table import STAGES, ready

CASES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_stage_but_the_kernel_agrees(path: Path) -> None:
    with ready([name for name in STAGES if not name.startswith("kernel")]) as stages:
        assert replayed(read_regression(str(path)), stages) is None


@pytest.mark.kernel
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_kernel_agrees(path: Path) -> None:
    with ready([name for name in STAGES if name.startswith("kernel")]) as stages:
        assert replayed(read_regression(str(path)), stages) is None
