# SPDX-License-Identifier: Apache-2.0
"""Edits that remove items of a list, in block and flow style.

With an item go the comments inside and beside it, and those directly above it with its indentation. A
list without items stays as `[]`. All other characters stay.
"""

import re
from collections.abc import Collection, Iterator

from policyc.compiler.driver.check.fixes.edits import (
    Edit,
    NotEditableError,
    above_comments,
    comment_indent,
    line_end,
    line_start,
)
from policyc.compiler.frontend.yaml.marked import MarkedNode, MarkedScalar, MarkedSequence

_COLON = re.compile(r"\s*:")


def without_items(
    text: str, key: MarkedScalar, items: MarkedSequence, gone: Collection[int]
) -> Iterator[Edit]:
    """The edits that remove the items with these indices; `key` is the key whose value the list is.

    Raises NotEditableError.
    """
    is_emptied = len(set(gone)) == len(items.items)
    if items.marks.is_flow:
        yield from _emptied_flow(items) if is_emptied else _without_flow(text, items, set(gone))
        return
    if is_emptied:
        colon = _COLON.match(text, key.marks.end)
        if colon is None:
            raise NotEditableError("its list has a key of several lines")
        yield Edit(colon.end(), colon.end(), " []")
    for index in sorted(gone):
        is_leading = all(at in gone for at in range(index))
        lines = _block_item(text, items, items.items[index])
        yield _with_blank_line(text, lines, is_leading, index == len(items.items) - 1)


def _block_item(text: str, items: MarkedSequence, item: MarkedNode) -> Edit:
    indent = items.marks.column - 1
    dash = _dash_line(text, item.marks.start, indent)
    begin = above_comments(text, dash, indent)
    finish = line_end(text, item.marks.end)
    while (found := comment_indent(text[finish : line_end(text, finish)])) and found > indent:
        finish = line_end(text, finish)
    return Edit(begin, finish)


def _dash_line(text: str, at: int, indent: int) -> int:
    """The line of an item's dash, which may be above the item's content."""
    begin = line_start(text, at)
    while not (text.startswith("-", begin + indent) and not text[begin : begin + indent].strip()):
        if begin == 0:
            raise NotEditableError("its list begins in the middle of a line")
        begin = line_start(text, begin - 1)
    return begin


def _with_blank_line(text: str, lines: Edit, is_leading: bool, is_last: bool) -> Edit:
    """The lines of an item with the blank line that set it apart from its neighbour."""
    begin, finish = lines.start, lines.end
    above = line_start(text, begin - 1) if begin else 0
    is_blank_above = begin > 0 and not text[above:begin].strip()
    is_blank_below = not text[finish : line_end(text, finish)].strip()
    if is_leading:
        return Edit(begin, line_end(text, finish)) if is_blank_below and not is_last else lines
    return Edit(above, finish) if is_blank_above and (is_last or is_blank_below) else lines


def _emptied_flow(items: MarkedSequence) -> Iterator[Edit]:
    yield Edit(items.marks.start, items.marks.end, "[]")


def _without_flow(text: str, items: MarkedSequence, gone: set[int]) -> Iterator[Edit]:
    """Each removed item goes with the comma after it, the last ones with the comma before them."""
    n = len(items.items)
    kept = [index for index in range(n) if index not in gone]
    if "#" in _between(text, items):
        raise NotEditableError("its list in flow style has comments between the items")
    for index in gone:
        marks = items.items[index].marks
        if index < kept[-1]:
            yield Edit(marks.start, items.items[index + 1].marks.start)
    if kept[-1] < n - 1:
        yield Edit(items.items[kept[-1]].marks.end, items.items[-1].marks.end)


def _between(text: str, items: MarkedSequence) -> str:
    """The text of a list that is not in its items."""
    at = items.marks.start
    parts = []
    for item in items.items:
        parts.append(text[at : item.marks.start])
        at = item.marks.end
    return "".join((*parts, text[at : items.marks.end]))
