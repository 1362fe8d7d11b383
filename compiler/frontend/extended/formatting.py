# SPDX-License-Identifier: Apache-2.0
"""Formatting of the rule language in files: .intent files, and fields of policyc's own kinds.

In YAML only the text of a field changes: `rules` and `intents` in literal blocks (`|`), and `appliesTo`
on one line. The rest of the file stays as it is, byte for byte.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.object_kinds import (
    EXTENDED_POLICY,
    INTENT,
)
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.embedded_text import (
    FileText,
    Lines,
    RuleText,
)
from policyc.compiler.frontend.yaml.tree import (
    LongScalar,
    Mapping,
    Node,
    Scalar,
    Sequence,
)
from policyc.grammar.layout import lay_out_expression, lay_out_intents, lay_out_rules
from policyc.grammar.parse import Parsed, parse_expression, parse_intents, parse_rules
from policyc.grammar.tokens import NEWLINE, tokenise
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InternalError
from policyc.ir.spans import Span

_BOM = "\ufeff"
_GROUP = "policyc.dev"
_HEAD = re.compile(r"(?:[&!]\S*[ \t]+)*\|[^\n]*\n")


@dataclass(frozen=True, slots=True)
class _Language:
    """The parser and the formatter of one field's text."""

    parse: Callable[[str], Parsed]
    lay_out: Callable[[str], str]


_EXPRESSION = _Language(parse_expression, lay_out_expression)
_FIELDS = {
    (EXTENDED_POLICY[1], "appliesTo"): _EXPRESSION,
    (EXTENDED_POLICY[1], "rules"): _Language(parse_rules, lay_out_rules),
    (INTENT[1], "intents"): _Language(parse_intents, lay_out_intents),
}


def format_intent_file(data: bytes, name: str, report: Report) -> bytes | None:
    """The formatted file; None if it has mistakes, which are reported."""
    text = _decoded(data, name, report)
    if text is None:
        return None
    body = text.removeprefix(_BOM)
    parsed = parse_intents(body)
    Passage(FileText(body, name), "intents", report).say_problems(parsed)
    if parsed.problems:
        return None
    laid_out = lay_out_intents(body)
    if "\r\n" in body:
        laid_out = laid_out.replace("\n", "\r\n")
    _check_words(body, laid_out)
    return (_BOM * text.startswith(_BOM) + laid_out).encode()


def format_yaml_file(data: bytes, name: str, report: Report) -> bytes | None:
    """The file with its fields formatted; None if it or one of them has mistakes."""
    if _GROUP.encode() not in data:
        return data
    text = _decoded(data, name, report)
    before = len(report.errors)
    documents = list(read_documents(data, name, report))
    fields = [found for document in documents for found in _fields(document)]
    for scalar, path, language in fields:
        Passage(RuleText(scalar), path, report).say_problems(language.parse(scalar.text))
    if text is None or len(report.errors) > before:
        return None
    body = text.removeprefix(_BOM)
    starts = Lines(body).starts
    edits: dict[int, tuple[str, str]] = {}
    for scalar, _, language in fields:
        at = starts[scalar.line - 1] + scalar.column - 1
        written = _written(scalar, body, at)
        laid_out = _laid_out(scalar, written, language)
        if laid_out is not None and laid_out != written:
            edits[at] = (written, laid_out)
    new = body
    for at, (written, laid_out) in sorted(edits.items(), reverse=True):
        new = new[:at] + laid_out + new[at + len(written) :]
    _check_same(documents, new.encode(), name)
    return (_BOM * text.startswith(_BOM) + new).encode()


def _decoded(data: bytes, name: str, report: Report) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as bad:
        byte = f"0x{bad.object[bad.start]:02x}"
        line = bad.object.count(b"\n", 0, bad.start) + 1
        report.add(codes.NOT_UTF8.at(Span(name, line, 0), byte=byte))
        return None


def _fields(node: Node) -> Iterator[tuple[Scalar, str, _Language]]:
    """The fields in the rule language, of an object or of the items of a list."""
    if not isinstance(node, Mapping):
        return
    items = node.get("items")
    if isinstance(items, Sequence):
        for item in items.items:
            yield from _fields(item)
    version, kind, spec = node.get("apiVersion"), node.get("kind"), node.get("spec")
    if not isinstance(version, Scalar) or not isinstance(kind, Scalar):
        return
    if not version.text.startswith(f"{_GROUP}/") or not isinstance(spec, Mapping):
        return
    for name, entry in spec:
        language = _FIELDS.get((kind.text, name))
        if language is not None and isinstance(entry.value, Scalar) and not entry.value.is_null:
            yield entry.value, f"spec.{name}", language


def _written(scalar: Scalar, body: str, at: int) -> str:
    """The scalar as it is written in the file."""
    if isinstance(scalar, LongScalar):
        return scalar.raw if body.startswith(scalar.raw, at) else ""
    return body[at : at + scalar.end_column - scalar.column]


def _laid_out(scalar: Scalar, written: str, language: _Language) -> str | None:
    """The formatted text; None if the field's YAML style is not changed."""
    if language is _EXPRESSION:
        if isinstance(scalar, LongScalar):
            return None
        quote = "" if scalar.plain else written[:1]
        if written != f"{quote}{scalar.text}{quote}":
            return None
        return f"{quote}{language.lay_out(scalar.text)}{quote}"
    head = _HEAD.match(written)
    if not isinstance(scalar, LongScalar) or head is None or not scalar.text.strip():
        return None
    body, tail = _body_and_tail(written[head.end() :])
    line_end = "\r\n" if head[0].endswith("\r\n") else "\n"
    indent = _indent(body, scalar.text)
    lines = _from_the_margin(language.lay_out(scalar.text).splitlines())
    return head[0] + line_end.join(indent + line if line else "" for line in lines) + tail


def _from_the_margin(lines: list[str]) -> list[str]:
    """Lines of which the first has no indent, together with the lines below it.

    Rules before any section (a mistake reported elsewhere) are formatted as if below one. YAML takes the
    first line's indentation as that of the block, and a line before it as the block's end.
    """
    first = next(line for line in lines if line)
    deeper = len(first) - len(first.lstrip(" "))
    if not deeper:
        return lines
    above = list(takewhile(lambda line: not line or line.startswith(" "), lines))
    return [*(line[deeper:] for line in above), *lines[len(above) :]]


def _body_and_tail(text: str) -> tuple[str, str]:
    """The lines of a block, and the line end and empty lines after them."""
    body = text.rstrip(" \t\r\n")
    return body, text[len(body) :].lstrip(" \t")


def _indent(body: str, text: str) -> str:
    """The blanks in front of every line of the block."""
    written = next(line for line in body.split("\n") if line.strip())
    said = next(line for line in text.split("\n") if line.strip())
    return " " * (len(written.rstrip()) - len(said.rstrip()))


def _check_words(old: str, new: str) -> None:
    if _words(old) != _words(new):
        raise InternalError("fmt would have changed more than the layout")


def _words(text: str) -> list[str]:
    return [token.text.rstrip() for token in tokenise(text) if token.kind != NEWLINE]


def _check_same(documents: list[Node], data: bytes, name: str) -> None:
    """Read the result again: only the layout of the fields may differ."""
    report = Report()
    again = list(read_documents(data, name, report))
    fields = {id(scalar) for node in (*documents, *again) for scalar, _, _ in _fields(node)}
    if report.errors or [_value(n, fields) for n in documents] != [
        _value(n, fields) for n in again
    ]:
        raise InternalError(f"fmt would have changed more than the layout of {name}")


def _value(node: Node, fields: set[int]) -> object:
    """A node as values that can be compared; for a field in the rule language, its tokens."""
    match node:
        case Scalar():
            return _words(node.text) if id(node) in fields else (node.text, node.plain)
        case Mapping():
            return {key: _value(entry.value, fields) for key, entry in node}
        case Sequence():
            return [_value(item, fields) for item in node.items]
