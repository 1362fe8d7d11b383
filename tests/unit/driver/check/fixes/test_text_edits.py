# SPDX-License-Identifier: Apache-2.0
"""Edits of the text: which characters go with an item, a document or a comment, and which stay."""

from collections.abc import Collection

import pytest

from policyc.compiler.driver.check.fixes.comments import comment_on, without_codes
from policyc.compiler.driver.check.fixes.documents import is_emptied, without_documents
from policyc.compiler.driver.check.fixes.edits import Edit, NotEditableError, applied
from policyc.compiler.driver.check.fixes.lists import without_items
from policyc.compiler.frontend.yaml.marked import (
    MarkedMapping,
    MarkedSequence,
    marked_documents,
)

BLOCK = """\
top: 1
list: # all
  # about a
  - a: 1 # beside a
    b: |
      x
    # in a

  # apart

  # about b
  - &plain {b: 1}
  -
    c: "#1"
  # after
end: 1
"""
FLOW = "list: [ {a: 1},  'b', c ] # x\nend: 1\n"
LINES = "list: [\n  {a: 1},\n  'b',\n  c\n]\n"


def less(text: str, gone: Collection[int]) -> str:
    root = marked_documents(text)[0].root
    assert isinstance(root, MarkedMapping)
    entry = root.entry("list")
    assert entry is not None
    key, items = entry
    assert isinstance(items, MarkedSequence)
    return applied(text, without_items(text, key, items, gone))


A = "  # about a\n  - a: 1 # beside a\n    b: |\n      x\n    # in a\n\n"
B = "  # about b\n  - &plain {b: 1}\n"
C = '  -\n    c: "#1"\n'


@pytest.mark.parametrize(
    ("gone", "parts"),
    [({0}, (A,)), ({1}, (B,)), ({2}, (C,)), ({0, 2}, (A, C)), ({1, 2}, (B, C))],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_block_item_goes_with_its_comments_and_a_blank_line(
    gone: set[int], parts: tuple[str, ...], end: str
) -> None:
    expected = BLOCK
    for part in parts:
        expected = expected.replace(part, "")
    assert less(BLOCK.replace("\n", end), gone) == expected.replace("\n", end)


def test_a_block_list_without_items_is_written_as_an_empty_one() -> None:
    emptied = BLOCK.replace(A, "").replace(B, "").replace(C, "")
    assert less(BLOCK, {0, 1, 2}) == emptied.replace("list: #", "list: [] #")


def test_an_item_goes_with_the_blank_line_that_set_it_apart() -> None:
    assert less("list:\n- a\n\n- b\n\n- c\n", {0}) == "list:\n- b\n\n- c\n"
    assert less("list:\n- a\n\n- b\n\n- c\n", {0, 1}) == "list:\n- c\n"
    assert less("list:\n- a\n\n- b\n\n- c\nd: 1\n", {2}) == "list:\n- a\n\n- b\nd: 1\n"
    assert less("list:\n- a\n\n- b\n\nd: 1\n", {0, 1}) == "list: []\n\nd: 1\n"
    assert less("list:\n- a\n\n- b\n\n- c\n", {1}) == "list:\n- a\n\n- c\n"
    assert less("list:\n- a\n\n- b\n", {1}) == "list:\n- a\n"


def test_the_last_item_may_lack_a_line_end() -> None:
    assert less("list:\n- a\n- b", {1}) == "list:\n- a\n"
    assert less("list:\n- a\n- b", {0}) == "list:\n- b"


@pytest.mark.parametrize(
    ("text", "gone", "expected"),
    [
        (FLOW, {0}, "list: [ 'b', c ] # x\nend: 1\n"),
        (FLOW, {1}, "list: [ {a: 1},  c ] # x\nend: 1\n"),
        (FLOW, {2}, "list: [ {a: 1},  'b' ] # x\nend: 1\n"),
        (FLOW, {0, 2}, "list: [ 'b' ] # x\nend: 1\n"),
        (FLOW, {1, 2}, "list: [ {a: 1} ] # x\nend: 1\n"),
        (FLOW, {0, 1, 2}, "list: [] # x\nend: 1\n"),
        (LINES, {0}, "list: [\n  'b',\n  c\n]\n"),
        (LINES, {2}, "list: [\n  {a: 1},\n  'b'\n]\n"),
        ("list: [a, b,]\n", {1}, "list: [a,]\n"),
        ('{"list": [1, 2], "end": 1}', {1}, '{"list": [1], "end": 1}'),
    ],
)
def test_a_flow_item_goes_with_one_comma(text: str, gone: set[int], expected: str) -> None:
    assert less(text, gone) == expected


def test_comments_between_flow_items_are_not_touched() -> None:
    with pytest.raises(NotEditableError, match="comments between"):
        less("list: [a, # about a\n  b]\n", {1})


DOCUMENTS = "# licence\n\n# about a\na: 1\n---\n# in b\nb: 1\n--- # Source: c\nc: 1"


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ({0}, "# licence\n\n---\n# in b\nb: 1\n--- # Source: c\nc: 1"),
        ({1}, "# licence\n\n# about a\na: 1\n--- # Source: c\nc: 1"),
        ({2}, "# licence\n\n# about a\na: 1\n---\n# in b\nb: 1\n"),
        ({0, 2}, "# licence\n\n---\n# in b\nb: 1\n"),
    ],
)
def test_a_document_goes_with_its_marker(gone: set[int], expected: str) -> None:
    documents = marked_documents(DOCUMENTS)
    assert applied(DOCUMENTS, without_documents(DOCUMENTS, documents, gone)) == expected


def test_a_file_with_comments_alone_is_empty() -> None:
    documents = marked_documents("a: 1\n---\n# x\n---\nb: 1\n")
    assert is_emptied(documents, {0, 2}) and not is_emptied(documents, {0})


def test_documents_with_end_markers_are_refused() -> None:
    text = "a: 1\n...\n---\nb: 1\n"
    with pytest.raises(NotEditableError, match="end of a document"):
        list(without_documents(text, marked_documents(text), {0}))


@pytest.mark.parametrize(
    ("line", "unused", "expected"),
    [
        ("a: 1  # policyc:ignore=PC2003 why", {"PC2003"}, "a: 1"),
        (
            "a: 1  # policyc:ignore=PC2003,PC2001 why",
            {"PC2003"},
            "a: 1  # policyc:ignore=PC2001 why",
        ),
        ("a: 1 # x # policyc:ignore=PC2003 why", {"PC2003"}, "a: 1 # x"),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_code_goes_and_the_comment_with_the_last_one(
    line: str, unused: set[str], expected: str, end: str
) -> None:
    text = f"b: 1\n{line}{end}"
    edit = without_codes(text, comment_on(text, 2), unused)
    assert applied(text, [edit]) == f"b: 1\n{expected}{end}"


def test_a_comment_on_its_own_line_goes_with_the_line() -> None:
    text = "b: 1\n  # policyc:ignore=PC2003 why\na: 1\n"
    edit = without_codes(text, comment_on(text, 2), {"PC2003"})
    assert applied(text, [edit]) == "b: 1\na: 1\n"


def test_edits_inside_of_removed_text_are_dropped_and_overlaps_are_refused() -> None:
    assert applied("abcdef", [Edit(1, 2, "x"), Edit(0, 3), Edit(4, 4, "y")]) == "dyef"
    with pytest.raises(NotEditableError):
        applied("abcdef", [Edit(0, 3), Edit(2, 4)])
