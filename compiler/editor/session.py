# SPDX-License-Identifier: Apache-2.0
"""The state of a session: open documents, what was read, and what was found for which text.

Nothing here knows the protocol. All methods are called by one thread.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from policyc.compiler.driver.check.check import Checked
from policyc.compiler.driver.settings.find import CONFIG_FILE
from policyc.compiler.editor.carried import carried
from policyc.compiler.editor.folder import Folder, read_folder, with_text
from policyc.compiler.editor.near_check import read_findings
from policyc.compiler.editor.positions import Text
from policyc.compiler.editor.reading import Reading, edited, read_all
from policyc.ir.counts import counted
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class Document:
    """An open document; `stamp` differs for every text that the session was given."""

    uri: str
    text: str
    version: int | None
    stamp: int


@dataclass
class Session:
    """Documents are known by the real paths of their files, and other files by their names in findings.

    `encoding` is that of positions. `checked` has the last check of a document, with its stamp, and
    `found` the text and the findings of it that reading does not have.
    """

    encoding: str = "utf-16"
    documents: dict[str, Document] = field(default_factory=dict)
    reading: Reading = field(default_factory=lambda: Reading(Folder.empty()))
    checked: dict[str, tuple[int, Checked]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    found: dict[str, tuple[str, tuple[Diagnostic, ...]]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _stamps: "count[int]" = field(default_factory=count)

    def reload(self) -> None:
        """Read the settings and all files again."""
        texts = {path: each.text for path, each in self.documents.items()}
        self.reading = read_all(read_folder(texts))
        files = self.reading.folder.files.values()
        self._names = {os.path.realpath(each.path): each.name for each in files}

    def open(self, path: str, uri: str, text: str, version: int | None) -> None:
        """A document has this text now; it is read if it differs from what was read."""
        path = os.path.realpath(path)
        self.documents[path] = Document(uri, text, version, next(self._stamps))
        name = self._names.get(path)
        if name is None:
            if Path(path).suffix in (".yaml", ".yml", ".json"):
                self.reload()
            return
        content = with_text(self.reading.folder.files[name], text)
        if content.data != self.reading.folder.files[name].data:
            self.reading = edited(self.reading, content)

    def close(self, path: str) -> None:
        """A document is closed: its file counts again."""
        self.documents.pop(os.path.realpath(path), None)
        self.reload()

    def is_read_when_saved(self, path: str) -> bool:
        """Whether a file matters beside the policies: the settings, and files of the cluster."""
        real = os.path.realpath(path)
        around = map(os.path.realpath, self.reading.folder.settings.cluster)
        is_inside = any(real == each or real.startswith(f"{each}{os.sep}") for each in around)
        return is_inside or Path(real).name == CONFIG_FILE

    def name_of(self, path: str) -> str | None:
        """The name of an open document in findings; None for a file that is not among the policies."""
        return self._names.get(os.path.realpath(path))

    def document(self, name: str) -> Document | None:
        """The open document of a file."""
        return self.documents.get(os.path.realpath(name))

    def open_names(self) -> list[str]:
        """The names of all open documents of policies."""
        return [self._names[path] for path in self.documents if path in self._names]

    def text_of(self, name: str) -> Text:
        """The text of a file by its name; empty if it cannot be read."""
        document = self.document(name)
        if document is not None:
            return Text(document.text, self.encoding)
        content = self.reading.folder.files.get(name)
        if content is not None:
            return Text(content.data.decode("utf-8", "replace"), self.encoding)
        path = Path(name)
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        return Text(text, self.encoding)

    def findings_of_reading(self, name: str) -> tuple[Diagnostic, ...]:
        """What strict reading says about a file, and why there is no check, if there is none."""
        found = self.reading.findings.get(name, ())
        others = sorted(self.reading.broken - {name})
        if others or not self.reading.is_whole:
            found = (*found, _waits(name, others))
        return found

    def keep_found(self, name: str, findings: Iterable[Diagnostic]) -> None:
        """Note the findings of a check about the current text of a document."""
        document = self.document(name)
        if document is not None and name in self.reading.folder.files:
            own = read_findings(self.reading, name)
            self.found[name] = document.text, tuple(f for f in findings if f not in own)

    def first_findings(self, name: str) -> tuple[Diagnostic, ...]:
        """What is known about an edited document before its check ends.

        That is what reading says now, and what the last check said about lines that are unchanged.
        """
        text, found = self.found.get(name, ("", ()))
        document = self.document(name)
        now = "" if document is None else document.text
        return (*read_findings(self.reading, name), *carried(name, text, now, found))

    def is_checkable(self, name: str) -> bool:
        """Whether the policies are complete: no file has an error."""
        reading = self.reading
        return reading.is_whole and not reading.broken and name in reading.folder.files


def _waits(name: str, others: Iterable[str]) -> Diagnostic:
    """Findings of `check` could be wrong without the policies of another file."""
    listed = list(others)
    files = counted(len(listed), "file") if listed else "the set of files"
    first = f", first {os.path.normpath(listed[0])}" if listed else ""
    verb = "have" if len(listed) > 1 else "has"
    message = f"rules are not checked: {files} {verb} errors{first}"
    return Diagnostic("", Severity.NOTE, message, Span(name, 0, 0))
