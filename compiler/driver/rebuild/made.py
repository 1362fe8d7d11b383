# SPDX-License-Identifier: Apache-2.0
"""Values that are made of their texts when they are asked for: few of them ever are."""

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class Made(Sequence[T]):
    """The values of `texts`, each made again whenever it is asked for."""

    def __init__(self, texts: Sequence[str], make: Callable[[str], T]) -> None:
        self.texts, self._make = texts, make

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        """The value at a place, or those at several."""
        if isinstance(at, slice):
            return tuple(map(self._make, self.texts[at]))
        return self._make(self.texts[at])
