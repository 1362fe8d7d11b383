# SPDX-License-Identifier: Apache-2.0
"""Every input that is kept, through its target: what was found once stays mended."""

import time
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
KEPT = sorted(path for folder in CORPUS.iterdir() for path in folder.iterdir())
SECONDS = 20
"""Of CPU for one small input: far beyond what any takes."""


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_kept_inputs_parse_in_time(path: Path) -> None:
    started = time.process_time()
    TARGETS[path.parent.name](path.read_bytes())
    assert time.process_time() - started < SECONDS


def test_every_fuzz_target_has_a_corpus() -> None:
    assert {path.parent.name for path in KEPT} == set(TARGETS)
    assert sum(path.stat().st_size for path in KEPT) < 1 << 20, "a corpus is small"
