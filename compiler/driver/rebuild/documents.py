# SPDX-License-Identifier: Apache-2.0
"""The documents of a YAML file, split without parsing.

A line `---` begins a document wherever it stands: no scalar may have it at the beginning of a line (YAML
1.2, 9.1.2). A file with any other document or line terminator is not split.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

from policyc.ir.fast_dataclass import dataclass

DIGEST_BYTES = 32
_MARK, _NEXT = b"---", b"\n---"
_UNSURE = (b"\r", b"\n...", b"\n%")
"""Other line ends, document ends, directives."""
_UNSURE_TOO = (b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""Byte order marks and other line ends, which are not ASCII."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document: the number of its first line, and its text from the marker on."""

    line: int
    text: bytes


class Documents(Sequence[Document]):
    """The documents of a file, whose text is extracted on demand.

    `lines` are the numbers of their first lines.
    """

    def __init__(self, data: bytes, begins: Sequence[int], lines: Sequence[int]) -> None:
        self._data, self._ends, self.lines = data, (*begins, len(data)), lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, at: int) -> Document: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Document]: ...

    def __getitem__(self, at: int | slice) -> Document | Sequence[Document]:
        """One document, or a slice."""
        if isinstance(at, slice):
            return [self[each] for each in range(len(self))[at]]
        return Document(self.lines[at], self._data[self._ends[at] : self._ends[at + 1]])

    def digests(self) -> Iterator[bytes]:
        """Digests that distinguish documents by text, not by position."""
        whole, sha256 = memoryview(self._data), hashlib.sha256
        for begin, end in pairwise(self._ends):
            yield sha256(whole[begin:end]).digest()


KnownDocument = tuple[bytes, int, int]
"""The known facts of a document: its digest, its first line, and its policy, or -1."""


def documents_of(data: bytes) -> Documents | None:
    """The documents of a file, in order, including empty ones. None if only a parser could split it."""
    unsure = _UNSURE if data.isascii() else _UNSURE + _UNSURE_TOO
    if data.startswith((b"...", b"%")) or any(mark in data for mark in unsure):
        return None
    if b"&" in data and b"*" in data:
        return None  # the expansion of aliases is limited over the whole file
    begins: list[int] = []
    lines: list[int] = []
    line, begin = 1, 0
    while begin < len(data):
        behind = begin + len(_MARK)
        if data.startswith(_MARK, begin) and data[behind : behind + 1] not in (b"\n", b""):
            return None  # there is text after the marker
        begins.append(begin)
        lines.append(line)
        end = data.find(_NEXT, begin) + 1 or len(data)
        line, begin = line + data.count(b"\n", begin, end), end
    return Documents(data, begins, lines)


def together(documents: Sequence[Document]) -> bytes:
    """The documents, ascending, as one file in which each keeps its lines."""
    out: list[bytes] = []
    line = 1
    for document in documents:
        out.append(b"\n" * (document.line - line))
        out.append(document.text)
        line = document.line + document.text.count(b"\n")
    return b"".join(out)
