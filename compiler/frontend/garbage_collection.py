# SPDX-License-Identifier: Apache-2.0
"""A pause of Python's cycle collector while trees are built, and fewer collections during proofs.

Trees of nodes have no cycles, so reference counts free them, and the collector would only walk them
again and again: 10,000 policies in one List take 7.3 s with it, and 2.7 s without
(docs/decisions/0003-yaml-events.md).
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection inside; afterwards the collector is as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def left_to_the_collector(*values: object) -> None:
    """Let the collector free values, instead of freeing them when they go out of use.

    A command that ends without another collection never frees them, which for a large result saves a
    twentieth of a short run.
    """
    held: list[object] = [*values]
    held.append(held)


@contextmanager
def collector_relaxed() -> Iterator[None]:
    """Inside, existing objects are not walked again, and new ones seldom.

    For work on policies that were read: the diff of 5000 policies takes 1.1 s, and 2.0 s without.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
