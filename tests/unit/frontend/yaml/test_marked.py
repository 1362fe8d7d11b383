# SPDX-License-Identifier: Apache-2.0
"""The tree with marks: each node's text is where the marks say."""

import pytest

from policyc.compiler.frontend.yaml.marked import (
    MarkedMapping,
    MarkedNode,
    MarkedSequence,
    marked_documents,
    nodes_of,
)


def part(text: str, node: MarkedNode) -> str:
    return text[node.marks.start : node.marks.end]


def value(text: str, *path: str | int) -> MarkedNode:
    node = marked_documents(text)[0].root
    for step in path:
        if isinstance(step, int):
            assert isinstance(node, MarkedSequence)
            node = node.items[step]
        else:
            assert isinstance(node, MarkedMapping)
            found = node.get(step)
            assert found is not None
            node = found
    return node


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("a:\n- b: 1 # x\n# y\n- c\n", ("a", 0), "b: 1"),
        ("a:\r\n- b: 1\r\n- c\r\n", ("a",), "- b: 1\r\n- c"),
        ("a: [{b: 1}, 'c' ] # x\n", ("a",), "[{b: 1}, 'c' ]"),
        ("a: [{b: 1}, 'c' ] # x\n", ("a", 1), "'c'"),
        ("a: |\n  b\n\n# x\nc: 1\n", ("a",), "|\n  b"),
        ("a: &n {b: 1}\n", ("a",), "&n {b: 1}"),
        ("é:\n- b\n", ("é", 0), "b"),
    ],
)
def test_a_node_ends_where_its_text_ends(
    text: str, path: tuple[str | int, ...], expected: str
) -> None:
    assert part(text, value(text, *path)) == expected


def test_anchors_aliases_and_tags_are_known() -> None:
    text = "a: &n [1]\nb: *n\nc: !!str 1\nd: 1\n"
    assert [value(text, key).marks.is_named for key in "abcd"] == [True, True, True, False]


def test_documents_begin_at_their_marker() -> None:
    text = "# x\na: 1\n--- # y\nb: 2\n...\n---\n%TAG\n"
    first, second, third = marked_documents(text.replace("%TAG", "c: 3"))
    assert [each.start for each in (first, second, third)] == [4, 9, 26]
    assert [each.is_explicit for each in (first, second, third)] == [False, True, True]
    assert [each.is_plain for each in (first, second, third)] == [True, False, True]


def test_every_node_is_visited() -> None:
    found = nodes_of(marked_documents("a: [{b: 1}]")[0].root)
    assert len(list(found)) == 6
