# SPDX-License-Identifier: Apache-2.0
"""The documents of a YAML file, told apart without parsing it.

A line `---` begins a document wherever it stands: no scalar may have it at the beginning of a line
(YAML 1.2, 9.1.2). Where a file has anything else that ends documents or lines, it is not taken apart.
"""

import hashlib
from collections.abc import Sequence

from policyc.ir.classes import dataclass

DIGEST_BYTES = 32
_MARK = b"---"
_UNSURE = (b"\r", b"\xef\xbb\xbf", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\n...", b"\n%")
"""Other ends of lines, marks of byte order, ends of documents, directives."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document: the number of its first line, and its text from the marker on."""

    line: int
    text: bytes

    @property
    def digest(self) -> bytes:
        """What tells it from documents of other text, wherever they stand."""
        return hashlib.sha256(self.text).digest()


KnownDocument = tuple[bytes, int, int]
"""What is known of a document: its digest, its first line, and its policy, or -1."""


def documents_of(data: bytes) -> list[Document] | None:
    """The documents of a file, in order; empty ones, too. None where only a parser could tell."""
    if data.startswith((b"...", b"%")) or any(mark in data for mark in _UNSURE):
        return None
    if b"&" in data and b"*" in data:
        return None  # what aliases stand for is counted over the whole file
    found, line, begin = [], 1, 0
    while begin < len(data):
        end = data.find(b"\n" + _MARK, begin) + 1 or len(data)
        text = data[begin:end]
        if text.startswith(_MARK) and text[len(_MARK) : len(_MARK) + 1] not in (b"\n", b""):
            return None  # something stands behind the marker
        found.append(Document(line, text))
        line, begin = line + text.count(b"\n"), end
    return found


def together(documents: Sequence[Document]) -> bytes:
    """The documents, ascending, as one file in which each stands on its lines."""
    out: list[bytes] = []
    line = 1
    for document in documents:
        out.append(b"\n" * (document.line - line))
        out.append(document.text)
        line = document.line + document.text.count(b"\n")
    return b"".join(out)
