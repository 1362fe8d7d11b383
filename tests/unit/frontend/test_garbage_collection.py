# SPDX-License-Identifier: Apache-2.0
"""The collector is as it was before, whatever happened inside."""

import gc

import pytest

from policyc.compiler.frontend.garbage_collection import (
    collector_paused,
    collector_relaxed,
)


def test_the_outermost_pause_restarts_the_collector() -> None:
    with collector_paused():
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_relaxed_settings_are_restored() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), collector_relaxed():
        assert gc.get_threshold() > before
        assert gc.get_freeze_count() > 0
        _ = 1 // 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
