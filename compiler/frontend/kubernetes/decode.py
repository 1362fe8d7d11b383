# SPDX-License-Identifier: Apache-2.0
"""Reads typed fields out of nodes, as strictly as the API server's strict field validation.

A value of the wrong type is reported once, and read as None. An absent or null value is read as its
default (Go's zero value). So reading continues, and one run shows every mistake.
"""

from collections.abc import Iterator

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.cluster_fields import Fields
from policyc.compiler.frontend.spelling import did_you_mean, nearest
from policyc.compiler.frontend.yaml.scalars import OddNumber
from policyc.compiler.frontend.yaml.tree import (
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    clipped,
    empty_mapping,
)
from policyc.ir.diagnostics import Report

INT32 = range(-(2**31), 2**31)
_NEARLY = 0.75
"""The similarity of two names from which one counts as a misspelling of the other."""


class Decoder:
    """Reads fields, and reports mistakes in `report`. Paths are in the API's notation."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def mapping(
        self, node: Node | None, path: str, known: frozenset[str] | None = None
    ) -> Mapping | None:
        """An object; null is an empty one. With `known`, any other field is an error."""
        if isinstance(node, Mapping):
            if known is not None and not known.issuperset(node.entries):
                self._unknown_fields(node, path, known)
            return node
        if isinstance(node, Scalar) and node.is_null:
            return empty_mapping(node)
        self._wrong_type(node, path, "a mapping")
        return None

    def object(
        self, parent: Mapping, name: str, path: str, known: frozenset[str] | None = None
    ) -> Mapping | None:
        """The object in a field; None if it is absent or null."""
        node = parent.get(name)
        return None if node is None else self.mapping(node, _join(path, name), known)

    def misspelt(self, node: Mapping, path: str, fields: Fields) -> None:
        """Report fields that are not in the API, but spelled nearly like one that is read."""
        for name, entry in node:
            if name in fields.read or name in fields.others:
                continue
            near = nearest(name, fields.read, _NEARLY)
            if near is not None:
                where = _join(path, name)
                finding = codes.UNKNOWN_FIELD.at(entry.key.span, where, where=clipped(where))
                self.report.add(finding.help(f"did you mean `{near}`?"))

    def items(self, parent: Mapping, name: str, path: str) -> Iterator[tuple[Node, str]]:
        """The items of a list field, nulls included, each with its path."""
        node = parent.get(name)
        if node is None:
            return
        path = _join(path, name)
        if not isinstance(node, Sequence):
            self._wrong_type(node, path, "a list")
            return
        for index, item in enumerate(node.items):
            yield item, f"{path}[{index}]"

    def string(self, parent: Mapping, name: str, path: str, default: str = "") -> str | None:
        """A string field; None if it has another type."""
        entry = parent.entries.get(name)
        if entry is None or entry.value.is_null:
            return default
        return self.text(entry.value, _join(path, name))

    def text(self, node: Node, path: str) -> str | None:
        """A string; null is the empty one, as in Go."""
        if isinstance(node, Scalar):
            value = node.value
            if isinstance(value, str):
                return value
            if value is None:
                return ""
        self._wrong_type(node, path, "a string")
        return None

    def integer(self, parent: Mapping, name: str, path: str) -> int | None:
        """A 32-bit integer field; None if it is absent, or has another type."""
        node = parent.get(name)
        if node is None:
            return None
        return self._int32(node, _join(path, name), "an integer")

    def int_or_string(self, parent: Mapping, name: str, path: str) -> int | str | None:
        """A field of type IntOrString; None if it is absent, or has another type."""
        node = parent.get(name)
        if node is None:
            return None
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return node.value
        return self._int32(node, _join(path, name), "an integer or a string")

    def boolean(self, parent: Mapping, name: str, path: str) -> bool:
        """A boolean field; false if it is absent."""
        node = parent.get(name)
        if node is None:
            return False
        if isinstance(node, Scalar) and isinstance(node.value, bool):
            return node.value
        self._wrong_type(node, _join(path, name), "true or false")
        return False

    def strings(self, parent: Mapping, name: str, path: str) -> tuple[str, ...]:
        """A list of strings."""
        read = (self.text(item, where) for item, where in self.items(parent, name, path))
        return tuple(text for text in read if text is not None)

    def string_map(self, parent: Mapping, name: str, path: str) -> dict[str, str]:
        """A map from string to string, such as labels; a null value is the empty string."""
        read = {}
        for key, entry, text in self._texts(parent, name, path):
            read[key] = text
            if entry.value.is_null:
                where = _join(path, name)
                found = codes.NULL_STRING.at(entry.key.span, f"{where}.{key}", where=where, key=key)
                self.report.add(found.help(f'if that is meant, write {key}: ""'))
        return read

    def selector_labels(self, parent: Mapping, name: str, path: str) -> dict[str, str]:
        """The map of labels in a label selector."""
        return self.string_map(parent, name, path)

    def _texts(self, parent: Mapping, name: str, path: str) -> Iterator[tuple[str, Entry, str]]:
        """The entries of a map to strings whose value is a string, or null: key, entry, text."""
        node = parent.get(name)
        if node is None:
            return
        path = _join(path, name)
        if not isinstance(node, Mapping):
            self._wrong_type(node, path, "a mapping")
            return
        for key, entry in node.entries.items():
            text = self.text(entry.value, f"{path}.{key}")
            if text is not None:
                yield key, entry, text

    def _int32(self, node: Node, path: str, expected: str) -> int | None:
        value = node.value if isinstance(node, Scalar) else None
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong_type(node, path, expected)
            return None
        if value not in INT32:
            self.report.add(
                codes.NOT_INT32.at(node.span, path, where=path, value=clipped(str(value)))
            )
            return None
        return value

    def _unknown_fields(self, node: Mapping, path: str, known: frozenset[str]) -> None:
        for name, entry in node:
            if name not in known:
                where = _join(path, name)
                finding = codes.UNKNOWN_FIELD.at(entry.key.span, where, where=clipped(where))
                self.report.add(finding.help(did_you_mean(name, known)))

    def _wrong_type(self, node: Node | None, path: str, expected: str) -> None:
        assert node is not None
        finding = codes.WRONG_TYPE.at(
            node.span, path, where=path, expected=expected, found=node.describe()
        )
        self.report.add(finding.help(_type_hint(node, expected)))


def _join(path: str, name: str) -> str:
    """The path of a field; that of the object itself is empty."""
    return f"{path}.{name}" if path else name


def _type_hint(node: Node, expected: str) -> str:
    """A hint about how to write the probable value."""
    if not isinstance(node, Scalar):
        return ""
    value = node.value
    if expected == "a string":
        word = "boolean" if isinstance(value, bool) else "number"
        text = clipped(node.text)
        return f'YAML reads {text} without quotes as a {word}; quote it: "{text}"'
    if isinstance(value, OddNumber):
        return "YAML parsers disagree on this number; write it in plain decimal"
    if isinstance(value, bool) and expected != "true or false":
        return f'if the name is meant, quote it: "{clipped(node.text)}"'
    if isinstance(value, str) and expected == "an integer" and value.isdigit():
        return f"remove the quotes: {value}"
    if expected == "true or false" and str(value).lower() in ("true", "false"):
        return f"remove the quotes: {str(value).lower()}"
    if expected == "a list":
        return "write it as a list: start the line below with `- `"
    return ""
