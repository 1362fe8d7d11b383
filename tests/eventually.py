# SPDX-License-Identifier: Apache-2.0
"""Wait for something that the kernel or another process does: poll it, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

DEADLINE = 20.0
"""Seconds: far above what a busy machine needs, so that only a fault meets it."""
INTERVAL = 0.01


def eventually(probe: Callable[[], T], what: str, *, seconds: float = DEADLINE) -> T:
    """Return the first true value of the probe; fail with `what` after the given seconds."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < end, f"after {seconds} s: {what} (last seen: {found!r})"
        time.sleep(INTERVAL)
