# SPDX-License-Identifier: Apache-2.0
"""What was done so far, and how to take it back: all of it, in reverse, whatever goes wrong."""

from collections.abc import Callable
from functools import partial
from types import TracebackType


class Undo:
    """Runs its steps when the block ends by an exception, unless `forget` came first.

    The exception goes on as it was; a step that fails is noted on it, and the others still run.
    """

    def __init__(self) -> None:
        self._steps: list[Callable[[], object]] = []

    def by(self, step: Callable[..., object], *arguments: object) -> None:
        """Remember a step, for something that is about to be done or just was."""
        self._steps.append(partial(step, *arguments))

    def forget(self) -> None:
        """What was done is to stay."""
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
