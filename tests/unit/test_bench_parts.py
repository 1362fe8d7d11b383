# SPDX-License-Identifier: Apache-2.0
"""What tests/bench/parts.py leaves out is there, once: a table of other code would be worth nothing."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_each_benchmark_part_occurs_once_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tests" / "bench")
    parts = importlib.import_module("parts").PARTS
    assert parts
    for file, old, new, packets in parts.values():
        assert (ROOT / "runtime" / "datapath" / file).read_text().count(old) == 1, old
        assert old != new
        assert packets
