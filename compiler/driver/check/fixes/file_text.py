# SPDX-License-Identifier: Apache-2.0
"""A file of policies as text that can be edited, and the objects and rules in it by their places."""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from policyc.compiler.driver.check.fixes.edits import NotEditableError
from policyc.compiler.frontend.yaml.marked import (
    MarkedDocument,
    MarkedMapping,
    MarkedNode,
    MarkedScalar,
    MarkedSequence,
    marked_documents,
    nodes_of,
)
from policyc.compiler.frontend.yaml.sources import GIT_SCHEME, STDIN_NAME, Content
from policyc.ir.spans import Span

MARK = "\ufeff"
"""The byte order mark, which stays at the beginning of a file."""
_ODD_BREAK = re.compile("[\x85\u2028\u2029]|\r(?!\n)")
_SURROGATE = re.compile(r"\\u[dD][89abAB]")
_RULE_PATH = re.compile(r"spec\.(?P<direction>ingress|egress)\[(?P<index>\d+)\]")


@dataclass(frozen=True, slots=True)
class RulePart:
    """The item of a list that is a rule: its document, its spec, and the list with its key."""

    document: int
    spec: MarkedMapping
    key: MarkedScalar
    items: MarkedSequence
    index: int


@dataclass(frozen=True, slots=True)
class FileText:
    """The text of a file without its byte order mark, and its documents.

    `named` has the index of the document for each place at which a message may name its object.
    """

    content: Content
    text: str
    documents: tuple[MarkedDocument, ...]
    mark: str
    named: Mapping[Span, int]

    def document_of(self, policy: Span) -> int:
        """The index of the document of a policy, whose place is `metadata.name`."""
        if policy not in self.named:
            raise NotEditableError("the object is not a document of its own")
        return self.named[policy]

    def rule(self, policy: Span, rule: Span, path: str) -> RulePart:
        """The part of the text that is a rule, whose path in its object is `path`."""
        document = self.document_of(policy)
        found = _RULE_PATH.fullmatch(path)
        root = self.documents[document].root
        spec = root.get("spec") if isinstance(root, MarkedMapping) else None
        if found is None or not isinstance(spec, MarkedMapping):
            raise NotEditableError("the rule is not an item of `spec.ingress` or `spec.egress`")
        entry = spec.entry(found["direction"])
        items = None if entry is None else entry[1]
        if entry is None or not isinstance(items, MarkedSequence):
            raise NotEditableError("its list is an alias of another one")
        index = int(found["index"])
        if index >= len(items.items) or _span(self.content, items.items[index]) != rule:
            raise NotEditableError("the rule is not where it was read")
        _refuse_names((root, spec, items), items.items[index])
        return RulePart(document, spec, entry[0], items, index)

    def is_in_scalar(self, at: int) -> bool:
        """Whether a character belongs to a value, and not to a comment."""
        return any(
            isinstance(node, MarkedScalar) and node.marks.start <= at < node.marks.end
            for document in self.documents
            for node in nodes_of(document.root)
        )


def start_of(span: Span) -> Span:
    """The span without its end, as places are compared here."""
    return Span(span.file, span.line, span.column)


def _refuse_names(around: tuple[MarkedNode, ...], item: MarkedNode) -> None:
    """Refuse text that an alias may repeat elsewhere, and aliases."""
    if any(node.marks.is_named for node in (*around, *nodes_of(item))):
        raise NotEditableError("the rule or its list has an anchor, an alias or a tag")


def file_text(content: Content) -> FileText:
    """The text of a content. Raises NotEditableError unless it is a regular file of one reading."""
    _refuse_other_sources(content)
    decoded = content.data.decode("utf-8")
    mark = MARK if decoded.startswith(MARK) else ""
    text = decoded.removeprefix(mark)
    if _ODD_BREAK.search(text) or _SURROGATE.search(text):
        raise NotEditableError("its file has line ends or escapes that are read in several ways")
    try:
        documents = tuple(marked_documents(text))
    except yaml.YAMLError as failure:
        raise NotEditableError("its file is not read as YAML") from failure
    named = {
        _span(content, node): at
        for at, document in enumerate(documents)
        if isinstance(document.root, MarkedMapping)
        for node in _names(document.root)
    }
    return FileText(content, text, documents, mark, named)


def _names(root: MarkedMapping) -> Iterator[MarkedNode]:
    """The nodes at which messages about an object may point."""
    yield root
    metadata = root.get("metadata")
    if metadata is not None:
        yield metadata
    if isinstance(metadata, MarkedMapping) and (name := metadata.get("name")) is not None:
        yield name


def _span(content: Content, node: MarkedNode) -> Span:
    return Span(content.name, node.marks.line, node.marks.column)


def _refuse_other_sources(content: Content) -> None:
    if content.name == STDIN_NAME:
        raise NotEditableError("it was read from standard input")
    if content.name.startswith(GIT_SCHEME):
        raise NotEditableError("it was read from a commit")
    if not content.path:
        raise NotEditableError("a tool rendered it")
    if Path(content.path).is_symlink():
        raise NotEditableError("its file is a symbolic link")
    if not stat.S_ISREG(Path(content.path).stat().st_mode):
        raise NotEditableError("its file is not a regular file")
