# SPDX-License-Identifier: Apache-2.0
"""The steps done so far, and their reversal: all of them, in reverse order, despite errors."""

from collections.abc import Callable
from functools import partial
from types import TracebackType


class Undo:
    """Reverses its steps if the block ends with an exception, unless `forget` was called.

    The exception is raised unchanged. A step that fails adds a note to it, and the other steps still
    run.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def by(self, step: Callable[..., object], *arguments: object) -> None:
        """Record a step, for an action that is about to happen or has just happened."""
        self._steps.append(partial(step, *arguments))

    def forget(self) -> None:
        """Keep everything that was done."""
        self._steps.clear()

    def __enter__(self) -> "Undo":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        for step in reversed(self._steps):
            try:
                step()
            except Exception as failure:
                error.add_note(f"and it could not be undone: {failure}")
        self._steps.clear()
