# SPDX-License-Identifier: Apache-2.0
"""Splitting without a parser gives the documents that the parser finds, at the same positions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.rebuild.documents import documents_of, together
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
)
from policyc.ir.diagnostics import Report
from tests.property.length import examples

LINES = st.sampled_from(
    [
        *("---", "--- ", "--- x", "----", " ---", "...", "%YAML 1.1", "# ---", "#", ""),
        *("a: 1", "b: |", "  text", "  ---", "c: >-", "d: 'one", "  two'", 'e: "x', '  y"', "- 1"),
        *("f: [1,", "  2]", "&x g: 1", "h: *x", "k: {", "}", "\t", "\N{NO-BREAK SPACE}: 1"),
        *("l: '", "'", "m: \u2028", "\ufeff", "n: \x85", "o\r", "? p", ": q"),
    ]
)
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(LINES, max_size=12),
    st.sampled_from(["", "\n"]),
)


def told(node: Node) -> object:
    """A node and all in it, with the places."""
    match node:
        case Scalar():
            return node.text, node.plain, node.line, node.column
        case Sequence():
            return node.line, node.column, [told(item) for item in node.items]
        case Mapping():
            entries = node.entries.values()
            return node.line, node.column, [(told(e.key), told(e.value)) for e in entries]


def read(data: bytes) -> tuple[list[object], list[object]]:
    """The documents that are not empty, and their findings."""
    report = Report()
    nodes = list(read_documents(data, "f.yaml", report))
    return [told(node) for node in nodes if not node.is_null], list(report.findings)


@settings(max_examples=examples(1000, 2))
@given(TEXTS)
def test_the_documents_of_a_file_are_those_of_its_parts(text: str) -> None:
    data = text.encode()
    whole, findings = read(data)
    parts = documents_of(data)
    if parts is None or findings:
        return
    assert b"".join(part.text for part in parts) == data
    apart = [document for part in parts for document in read(together([part]))[0]]
    assert apart == whole
    assert all(not read(together([part]))[1] for part in parts)


@settings(max_examples=examples(300, 2))
@given(TEXTS)
def test_a_subset_of_documents_reads_as_in_the_whole_file(text: str) -> None:
    data = text.encode()
    findings = read(data)[1]
    parts = documents_of(data)
    if parts is None or findings:
        return
    odd = [part for at, part in enumerate(parts) if at % 2]
    assert read(together(odd)) == ([d for part in odd for d in read(together([part]))[0]], [])


def test_documents_of_a_file_keep_their_line_and_text() -> None:
    parts = documents_of(b"# first\na: 1\n---\nb: 2\n---\n---\nc: 3")
    assert parts is not None
    assert [(part.line, part.text) for part in parts] == [
        (1, b"# first\na: 1\n"),
        (3, b"---\nb: 2\n"),
        (5, b"---\n"),
        (6, b"---\nc: 3"),
    ]
    assert together(parts[1::2]) == b"\n\n---\nb: 2\n\n---\nc: 3"
