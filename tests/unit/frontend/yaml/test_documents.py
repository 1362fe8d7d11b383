# SPDX-License-Identifier: Apache-2.0
"""Bad files are refused at the right place; good ones are trees with places."""

import json
import time

import pytest

from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.scalars import (
    OddNumber,
    resolve,
)
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
)
from policyc.ir.diagnostics import Report


def read(text: str | bytes) -> tuple[list[Node], Report]:
    report = Report()
    data = text if isinstance(text, bytes) else text.encode()
    return list(read_documents(data, "f.yaml", report)), report


def to_python(node: Node) -> object:
    match node:
        case Scalar():
            return node.value
        case Mapping():
            return {key: to_python(entry.value) for key, entry in node}
        case Sequence():
            return [to_python(item) for item in node.items]


REFUSED = [
    ("a key given twice", "a: 1\nb: 2\na: 3\n", "PC0107", (3, 1)),
    ("a key given twice in JSON", '{"a": 1,\n "a": 2}', "PC0107", (2, 2)),
    ("a tab as indentation", "a:\n\tb: 1\n", "PC0106", (2, 1)),
    ("a tab after spaces", "a:\n  b: 1\n \tc: 2\n", "PC0106", (3, 2)),
    ("bytes that are not UTF-8", b"a: 1\nb: \xff\n", "PC0104", (2, 4)),
    ("UTF-16", "a: 1".encode("utf-16"), "PC0104", (1, 1)),
    ("a control character", b"a: 1\nb: \x01\n", "PC0105", (2, 4)),
    ("a bracket that is not closed", "a: [1, 2\n", "PC0105", (2, 1)),
    ("a Python tag", "a: !!python/object:os.system x\n", "PC0110", (1, 4)),
    ("a custom tag", "a: !secret x\n", "PC0110", (1, 4)),
    ("a custom tag on a mapping", "a: !thing {b: 1}\n", "PC0110", (1, 4)),
    ("a merge key", "a: &x {b: 1}\nc:\n  <<: *x\n", "PC0109", (3, 3)),
    ("a number as a key", "a:\n  80: x\n", "PC0108", (2, 3)),
    ("a boolean as a key", "on: x\n", "PC0108", (1, 1)),
    ("a null key", "~: x\n", "PC0108", (1, 1)),
    ("a list as a key", "? [a]\n: x\n", "PC0108", (1, 3)),
    ("an alias without anchor", "a: *x\n", "PC0111", (1, 4)),
    ("an alias inside its anchor", "a: &x [1, *x]\n", "PC0112", (1, 11)),
    ("an anchor of the document before", "a: &x 1\n---\nb: *x\n", "PC0111", (3, 4)),
    ("a line end of YAML 1.1 only", "# é\x85a: 1\n", "PC0119", (1, 4)),
    ("a line separator", "a: 1\nb: 2 # x\u2028c: 3\n", "PC0119", (2, 9)),
    ("a paragraph separator", 'a: "x\u2029y"\n', "PC0119", (1, 6)),
    ("a byte order mark inside", "a: 1\n\ufeffb: 2\n", "PC0120", (2, 1)),
    ("deep nesting", "[" * 5000, "PC0114", (1, 201)),
    ("deep nesting of blocks", "".join("-\n" + " " * i for i in range(400)), "PC0114", (202, 201)),
]


@pytest.mark.parametrize(
    ("text", "code", "place"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_a_bad_file_is_refused_at_its_place(
    text: str | bytes, code: str, place: tuple[int, int]
) -> None:
    _, report = read(text)
    assert [finding.code for finding in report.findings] == [code]
    span = report.findings[0].span
    assert (span.line, span.column) == place


def test_json_strings_may_have_line_separators_and_lines_stay_those_of_an_editor() -> None:
    text = '{"a": "x\u2028y\u0085\u2029",\n "b": 1,\n "b": 2}'
    (document,), report = read(text)
    assert to_python(document) == {"a": "x\u2028y\u0085\u2029", "b": 1}
    assert [(f.code, f.span.line) for f in report.findings] == [("PC0107", 3)]


@pytest.mark.parametrize("text", ["a: {{ .x }}\n", "{{- if a }}\na: b\n{{ end }}\n"])
def test_a_template_has_a_hint(text: str) -> None:
    _, report = read(text)
    assert "render the templates first" in report.findings[0].hint


def test_the_first_of_two_equal_keys_is_noted() -> None:
    _, report = read("a: 1\na: 2\n")
    (note,) = report.findings[0].notes
    assert (note.span.line, note.span.column) == (1, 1)


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 30):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    started = time.process_time()
    _, report = read("\n".join(lines))
    assert [finding.code for finding in report.findings] == ["PC0113"]
    assert time.process_time() - started < 1


def test_ordinary_anchors_work() -> None:
    documents, report = read("a: &x {b: [1, 2]}\nc: *x\nd: &y text\ne: *y\n")
    assert report.findings == []
    expected = {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": "text", "e": "text"}
    assert to_python(documents[0]) == expected


NESTED_EQUAL = [
    ("- &a {x: &a 1, z: *a}\n- *a\n", [{"x": 1, "z": 1}, 1]),
    ("- &a [&a [1], *a]\n- *a\n", [[[1], [1]], [1]]),
    ("- &a [&a 1]\n- &a [2]\n- *a\n", [[1], [2], [2]]),
    ("- &a [&b [&a 1]]\n- [*a, *b]\n", [[[1]], [1, [1]]]),
]


@pytest.mark.parametrize(("text", "expected"), NESTED_EQUAL)
def test_an_alias_refers_to_the_last_anchor_before_it(text: str, expected: object) -> None:
    documents, report = read(text)
    assert report.findings == []
    assert to_python(documents[0]) == expected


def test_an_alias_inside_an_equal_anchor_is_refused() -> None:
    _, report = read("- &a [1, &a [2, *a]]\n")
    (finding,) = report.findings
    assert (finding.code, finding.span.column) == ("PC0112", 17)
    assert finding.notes[0].span.column == 10, "the inner one"


def test_documents_before_a_syntax_error_are_read() -> None:
    documents, report = read("a: 1\n---\nb: [\n")
    assert to_python(documents[0]) == {"a": 1}
    assert len(report.errors) == 1


@pytest.mark.parametrize(
    "value",
    [
        {"a": "é😀\u2028", "b": [True, None, 1.5, -3, "x/y", "\t"], "c": {}},
        {"quote": 'a"b\\c', "empty": "", "nested": [[[]]]},
    ],
)
@pytest.mark.parametrize("indent", [None, 2, "\t"])
@pytest.mark.parametrize("is_ascii", [True, False])
def test_json_is_read(value: object, indent: int | str | None, is_ascii: bool) -> None:
    documents, report = read(json.dumps(value, indent=indent, ensure_ascii=is_ascii))
    assert report.findings == []
    assert to_python(documents[0]) == value


def test_the_reader_skips_a_byte_order_mark() -> None:
    documents, _ = read(b"\xef\xbb\xbfa: 1\n")
    assert to_python(documents[0]) == {"a": 1}


def test_every_yaml_node_has_its_position() -> None:
    documents, _ = read("a:\n  - é: xyz\n    c: {d: 'e'}\n")
    root = documents[0]
    assert isinstance(root, Mapping)
    items = root.get("a")
    assert isinstance(items, Sequence)
    item = items.items[0]
    assert isinstance(item, Mapping)
    assert str(item.span) == "f.yaml:2:5"
    entry = item.entries["é"]
    assert str(entry.key.span) == "f.yaml:2:5"
    assert (entry.value.column, entry.value.end_column) == (8, 11)
    inner = item.entries["c"].value
    assert (inner.line, inner.column, inner.end_column) == (3, 8, 16)


PLAIN = [
    ("no", False),
    ("on", True),
    ("y", True),
    ("true", True),
    ("nope", "nope"),
    ("", None),
    ("~", None),
    ("80", 80),
    ("-1", -1),
    ("0", 0),
    ("1.5", 1.5),
    ("1e3", 1000.0),
    ("017", OddNumber("017")),
    ("1e3666", OddNumber("1e3666")),
    ("-1e999", OddNumber("-1e999")),
    ("0o17", OddNumber("0o17")),
    ("0x1F", OddNumber("0x1F")),
    ("1_000", OddNumber("1_000")),
    ("+5", OddNumber("+5")),
    (".inf", OddNumber(".inf")),
    ("1:30", "1:30"),
    ("2026-01-02", "2026-01-02"),
    ("10.0.0.0/8", "10.0.0.0/8"),
    ("::1", "::1"),
    ("-", "-"),
    (".", "."),
    ("9" * 5000, OddNumber("9" * 5000)),
]


@pytest.mark.parametrize(("text", "value"), PLAIN, ids=[repr(p[0])[:12] for p in PLAIN])
def test_a_plain_scalar_means_what_kubernetes_reads(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_quotes_and_string_tags_make_strings() -> None:
    documents, _ = read("a: 'no'\nb: \"80\"\nc: !!str 80\nd: |\n  no\n")
    assert to_python(documents[0]) == {"a": "no", "b": "80", "c": "80", "d": "no\n"}
