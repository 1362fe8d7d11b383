# SPDX-License-Identifier: Apache-2.0
"""Reads fields as a CRD's schema requires: required, bounded, counted, one of several.

The checks and messages are those of the API server's structural schemas. As there, a null field counts
as absent, and a null item of a list does not have the right type.
"""

from collections.abc import Iterable
from collections.abc import Mapping as Map

from policyc.compiler.frontend.admin import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
)


class SchemaDecoder(Decoder):
    """A `Decoder` that also knows the limits of a schema."""

    def required(self, parent: Mapping, name: str, path: str) -> Node | None:
        """A required field."""
        node = parent.get(name)
        if node is None:
            where = field_path(path, name)
            self.report.add(codes.REQUIRED.at(parent.span, where, where=where))
        return node

    def required_object(
        self, parent: Mapping, name: str, path: str, known: frozenset[str]
    ) -> Mapping | None:
        """A required object; None if it is missing or not an object."""
        node = self.required(parent, name, path)
        return None if node is None else self.mapping(node, field_path(path, name), known)

    def one_of(self, node: Mapping, path: str, known: Iterable[str]) -> str | None:
        """The one field of `known` that is set; None, reported, if there is not exactly one."""
        found = [name for name in known if node.get(name) is not None]
        if not found:
            finding = codes.TOO_FEW.at(node.span, path, where=path, count=0, what="properties")
            self.report.add(finding.help("set one of: " + ", ".join(sorted(known))))
            return None
        if len(found) > 1:
            finding = codes.TOO_MANY.at(
                node.span, path, where=path, count=len(found), limit="1 item"
            )
            self.report.add(finding.help("keep one of: " + ", ".join(found)))
            return None
        return found[0]

    def bounded(
        self, parent: Mapping, name: str, path: str, low: int, high: int, is_required: bool = True
    ) -> int | None:
        """An integer of low..high; None for anything else."""
        if is_required and self.required(parent, name, path) is None:
            return None
        value = self.integer(parent, name, path)
        if value is None or low <= value <= high:
            return value
        where = field_path(path, name)
        code, limit = (codes.BELOW, low) if value < low else (codes.ABOVE, high)
        span = parent.span_of(name)
        self.report.add(code.at(span, where, where=where, value=value, limit=limit))
        return None

    def selector_labels(self, parent: Mapping, name: str, path: str) -> dict[str, str]:
        """The map of labels in a selector; a null one is reported, and left out.

        The server drops a null label of a custom resource, which widens the selector.
        """
        read = {}
        for key, entry, text in self._texts(parent, name, path):
            if entry.value.is_null:
                where = f"{field_path(path, name)}.{key}"
                finding = codes.NULL_LABEL.at(entry.key.span, where, where=where, key=key)
                self.report.add(finding.help(f'write the value, or {key}: ""'))
                continue
            read[key] = text
        return read

    def choice(
        self,
        parent: Mapping,
        name: str,
        path: str,
        choices: tuple[str, ...],
        hints: Map[str, str] | None = None,
    ) -> str | None:
        """A required string out of `choices`; None for anything else.

        `hints`: hints for values that are frequent and not valid choices.
        """
        if self.required(parent, name, path) is None:
            return None
        value = self.string(parent, name, path)
        if value is None or value in choices:
            return value
        where = field_path(path, name)
        listed = ", ".join(quoted(choice) for choice in choices)
        finding = codes.CHOICE.at(
            parent.span_of(name), where, where=where, value=quoted(value), choices=listed
        )
        hint = (hints or {}).get(value) or did_you_mean(value, choices)
        self.report.add(finding.help(hint))
        return None

    def short_text(self, parent: Mapping, name: str, path: str, limit: int) -> str:
        """A string of at most `limit` characters."""
        value = self.string(parent, name, path) or ""
        if len(value) > limit:
            where = field_path(path, name)
            self.report.add(
                codes.TOO_LONG.at(parent.span_of(name), where, where=where, limit=limit)
            )
        return value

    def counted(
        self, parent: Mapping, name: str, path: str, limit: int, at_least: int = 1
    ) -> list[tuple[Node, str]]:
        """The items of a list of at_least..limit items, if it is present; each with its path."""
        items = list(self.items(parent, name, path))
        where = field_path(path, name)
        span = parent.span_of(name)
        if len(items) > limit:
            most = f"{limit} items"
            self.report.add(
                codes.TOO_MANY.at(span, where, where=where, count=len(items), limit=most)
            )
        elif len(items) < at_least and isinstance(parent.get(name), Sequence):
            finding = codes.TOO_FEW.at(span, where, where=where, count=0, what="items")
            self.report.add(finding.help(f"add an item, or leave `{name}` out if it is optional"))
        return items

    def text_set(
        self, parent: Mapping, name: str, path: str, limit: int
    ) -> list[tuple[str, Scalar, str]]:
        """The strings of a list without duplicates: (text, node, path)."""
        found: list[tuple[str, Scalar, str]] = []
        for item, where in self.counted(parent, name, path, limit):
            if item.is_null or not isinstance(item, Scalar):
                self._wrong_type(item, where, "a string")
                continue
            text = self.text(item, where)
            if text is None:
                continue
            if any(text == earlier for earlier, _, _ in found):
                value = quoted(text)
                self.report.add(codes.DUPLICATE.at(item.span, where, where=where, value=value))
                continue
            found.append((text, item, where))
        return found

    def item_object(
        self, item: Node, path: str, known: frozenset[str] | None = None
    ) -> Mapping | None:
        """An item of a list that must be an object; null is not one."""
        if item.is_null:
            self._wrong_type(item, path, "a mapping")
            return None
        return self.mapping(item, path, known)


def field_path(path: str, name: str) -> str:
    """The path of a field; that of the object itself is empty."""
    return f"{path}.{name}" if path else name
