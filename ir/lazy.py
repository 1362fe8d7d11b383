# SPDX-License-Identifier: Apache-2.0
"""Values that are computed from their texts, or from other data, on access: few are ever used."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class Made(Sequence[T], Generic[S, T]):
    """The values of `texts`, each computed on every access."""

    def __init__(self, texts: Sequence[S], make: Callable[[S], T]) -> None:
        self.texts, self._make = texts, make

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, at: int) -> T: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...

    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        """The value at one index, or the values of a slice."""
        if isinstance(at, slice):
            return tuple(map(self._make, self.texts[at]))
        return self._make(self.texts[at])
