# SPDX-License-Identifier: Apache-2.0
"""Texts of all policies in one piece: the text between changed policies is copied unchanged."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from policyc.ir.fast_dataclass import dataclass

Bytes = bytes | memoryview
HERE = "\0"
"""A placeholder in a text; JSON escapes this character."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """The texts in the order of their policies, each with `separator` after it; empty ones without.

    `ends` are the offsets in `data` where each ends.
    """

    ends: Sequence[int]
    data: Bytes
    separator: str

    def text(self, at: int) -> str:
        """The text of one policy."""
        begin = self.ends[at - 1] if at else 0
        return str(self.data[begin : self.ends[at]], "utf-8").removesuffix(self.separator)

    def with_changes(self, texts: Mapping[int, str]) -> Iterator[Bytes]:
        """All texts in pieces, with other texts for some policies; separators as above."""
        begin = 0
        for at in sorted(texts):
            end = self.ends[at - 1] if at else 0
            if end > begin:
                yield self.data[begin:end]
            begin = self.ends[at]
            if texts[at]:
                yield (texts[at] + self.separator).encode()
        if begin < len(self.data):
            yield self.data[begin:]


def stretches_of(texts: Iterable[str], separator: str) -> Stretches:
    """The stretches of texts."""
    parts = [(text + separator).encode() if text else b"" for text in texts]
    return Stretches(array("I", accumulate(map(len, parts))), b"".join(parts), separator)


@dataclass(frozen=True, slots=True)
class FileOfPolicies:
    """A file with a list that has a part for each policy, and the text before and after it."""

    head: Bytes
    items: Stretches
    tail: Bytes

    def with_changes(self, texts: Mapping[int, str], more: Iterable[str] = ()) -> bytes:
        """The file with other texts for some policies, and with more items after those of policies."""
        separator = self.items.separator
        pieces = [self.head, *self.items.with_changes(texts)]
        pieces += [(text + separator).encode() for text in more]
        pieces[-1] = pieces[-1][: -len(separator)]
        return b"".join((*pieces, self.tail))


def file_of(text: str, texts: Iterable[str], separator: str) -> FileOfPolicies:
    """The file whose text has HERE in place of the texts of the policies."""
    head, _, tail = text.encode().partition(HERE.encode())
    return FileOfPolicies(head, stretches_of(texts, separator), tail)
