# SPDX-License-Identifier: Apache-2.0
"""Edits that remove documents of a file with their `---` and comments."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from policyc.compiler.driver.check.fixes.edits import (
    Edit,
    NotEditableError,
    above_comments,
    line_start,
)
from policyc.compiler.frontend.yaml.marked import MarkedDocument, MarkedScalar


def is_emptied(documents: Sequence[MarkedDocument], gone: Collection[int]) -> bool:
    """Whether a file has nothing but comments without some documents."""
    return all(at in gone or _is_empty(each) for at, each in enumerate(documents))


def _is_empty(document: MarkedDocument) -> bool:
    root = document.root
    return isinstance(root, MarkedScalar) and not root.marks.is_flow and root.text == ""


def without_documents(
    text: str, documents: Sequence[MarkedDocument], gone: Collection[int]
) -> Iterator[Edit]:
    """The edits that remove the documents with these indices, up to the next document.

    Comments above the first document stay if a blank line or `---` follows them. Raises
    NotEditableError.
    """
    if not all(each.is_plain for each in documents):
        raise NotEditableError("its file has directives, or `...` at the end of a document")
    starts = [_begin(text, each) for each in documents]
    for at, (start, end) in enumerate(pairwise([*starts, len(text)])):
        if at in gone:
            yield Edit(start, end)


def _begin(text: str, document: MarkedDocument) -> int:
    if document.is_explicit:
        return document.start
    begin = line_start(text, document.start)
    return above_comments(text, begin, document.start - begin)
