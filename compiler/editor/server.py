# SPDX-License-Identifier: Apache-2.0
"""The server: requests of an editor in, findings out. One thread owns the session.

An edit is answered in two steps. First the edited file is read, and checked beside the policies for the
same pods. If that takes long, what is known without it is shown meanwhile. Then a process of its own
checks all files, unless a further edit ends it.
"""

import asyncio
import logging
import os
import pickle
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from policyc.compiler.driver.check.check import Checked
from policyc.compiler.editor import protocol
from policyc.compiler.editor.near_check import NearChecked, near_check
from policyc.compiler.editor.session import Document, Session
from policyc.compiler.editor.whole_check import COMMAND
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.spans import Span

PAUSE_S = 0.5
"""The pause after an edit before all files are checked."""
FIRST_S = 0.1
"""The time for the check of an edited file, before what is known without it is shown."""
_log = logging.getLogger(__name__)
Answer = TypeVar("Answer")


class PolicyServer(LanguageServer):
    """The server of one editor and one folder."""

    def __init__(self, version: str) -> None:
        super().__init__("policyc", version)
        self.session = Session()
        self._solvers = ThreadPoolExecutor(1, "check")
        self._tasks: set[asyncio.Task[None]] = set()
        self._near: dict[str, asyncio.Task[None]] = {}
        self._whole: asyncio.Task[None] | None = None
        self._edits = 0

    def begin(self) -> None:
        """Read the folder after the handshake."""
        encoding = self.workspace.position_encoding or types.PositionEncodingKind.Utf16
        self.session.encoding = types.PositionEncodingKind(encoding).value
        if self.workspace.root_path:
            os.chdir(self.workspace.root_path)
        self.guarded("", self.session.reload)
        self._after_change(self.session.open_names())

    def text_changed(self, uri: str) -> None:
        """A document was opened or edited."""
        path = to_fs_path(uri)
        if path is None or not uri.startswith("file:"):
            return
        document = self.workspace.get_text_document(uri)
        text, version = document.source, document.version
        self.guarded(path, lambda: self.session.open(path, uri, text, version))
        name = self.session.name_of(path)
        self._after_change([] if name is None else [name])

    def closed(self, uri: str) -> None:
        """A document was closed."""
        path = to_fs_path(uri)
        if path is not None:
            name = self.session.name_of(path)
            self.guarded(path, lambda: self.session.close(path))
            if name is not None and name not in self.session.reading.folder.files:
                self.show(name, ())
            self._after_change([])

    def files_changed(self, uris: Iterable[str]) -> None:
        """Files changed on disk; those of open documents count only as settings and as cluster."""
        session = self.session
        paths = [path for path in map(to_fs_path, uris) if path is not None]
        opened = {path for path in paths if os.path.realpath(path) in session.documents}
        if any(each not in opened or session.is_read_when_saved(each) for each in paths):
            self.guarded("", session.reload)
            self._after_change(session.open_names())

    def _after_change(self, names: Iterable[str]) -> None:
        self._edits += 1
        if self._whole is not None:
            self._whole.cancel()
        for name in names:
            if name in self._near:
                self._near[name].cancel()
            self._near[name] = self._start(self._check(name))
        self._whole = self._start(self._check_all(self._edits))

    def _start(self, work: Awaitable[None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(_awaited(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _check(self, name: str) -> None:
        """Publish what is found in one document, unless it changes meanwhile."""
        session, document = self.session, self.session.document(name)
        if document is None:
            return
        if not session.is_checkable(name):
            self.show(name, session.findings_of_reading(name))
            return
        checked: Checked | None = None
        findings: tuple[Diagnostic, ...]
        try:
            found = await self._near_checked(name, document)
            findings, checked = found.findings, found.checked
        except Exception as failure:  # a check that failed must not look like one without findings
            _log.exception("check of %s", name)
            findings = (*session.findings_of_reading(name), failed(name, failure))
        if not self._is_current(name, document):
            return
        if checked is not None:
            session.checked[name] = (document.stamp, checked)
            session.keep_found(name, findings)
        self.show(name, findings)

    async def _near_checked(self, name: str, document: Document) -> NearChecked:
        """The check of one document. If it is slow, what is known without it is published first."""
        work = asyncio.ensure_future(self.in_thread(near_check, self.session.reading, name))
        try:
            done, _ = await asyncio.wait({work}, timeout=FIRST_S)
            if not done and self._is_current(name, document):
                self.show(name, self.session.first_findings(name))
            return await work
        finally:
            work.cancel()  # a check that still waits for its turn is not needed after an edit

    def _is_current(self, name: str, document: Document) -> bool:
        now = self.session.document(name)
        return now is not None and now.stamp == document.stamp

    async def _check_all(self, edits: int) -> None:
        """Publish what is found in all files, unless one changes meanwhile."""
        await asyncio.sleep(PAUSE_S)
        found: Iterable[Diagnostic] = ()
        process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE)
        try:
            output, _ = await process.communicate(pickle.dumps(self.session.reading.folder))
            found = pickle.loads(output) if process.returncode == 0 else ()
        finally:
            _end(process)
        if edits != self._edits:
            return
        failure = RuntimeError("the check of all files failed") if process.returncode else None
        self._show_all(tuple(found), failure)

    def _show_all(self, found: tuple[Diagnostic, ...], failure: Exception | None) -> None:
        session = self.session
        by_file: dict[str, list[Diagnostic]] = {name: [] for name in session.shown}
        by_file |= {name: [] for name in session.open_names()}
        for each in found:
            by_file.setdefault(each.span.file, []).append(each)
        for name in session.open_names():
            if failure is not None:
                by_file[name] = [*session.findings_of_reading(name), failed(name, failure)]
            elif session.reading.broken or not session.reading.is_whole:
                by_file[name] = list(session.findings_of_reading(name))
            else:
                session.keep_found(name, by_file[name])
        for name, findings in by_file.items():
            self.show(name, findings)

    def show(self, name: str, findings: Iterable[Diagnostic]) -> None:
        """Publish the findings of a file. Those about no file are logged."""
        findings = list(findings)
        document = self.session.document(name)
        if document is None and not Path(name).is_file():
            for each in findings:
                _log.warning("%s: %s", each.span.file, each.message)
            if name not in self.session.shown:
                return
        shown = [protocol.diagnostic(each, self.session.text_of) for each in findings]
        uri = protocol.uri_of(name) if document is None else document.uri
        version = None if document is None else document.version
        self.session.shown.add(name)
        if not findings:
            self.session.shown.discard(name)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, shown, version))

    async def in_thread(self, work: Callable[..., Answer], *given: object) -> Answer:
        """The result of a function that may ask a solver: only one thread does."""
        return await asyncio.get_running_loop().run_in_executor(self._solvers, work, *given)

    def guarded(self, path: str, work: Callable[[], None]) -> None:
        """Do some work; a failure is logged and shown on the file, and the server goes on."""
        try:
            work()
        except Exception as failure:  # the next edit may be read again
            _log.exception("reading of %s", path)
            names = [path] if path else self.session.open_names()
            for name in names:
                self.show(name, [failed(name, failure)])


def failed(name: str, failure: Exception) -> Diagnostic:
    """An internal failure as a finding of a file."""
    words = f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
    message = f"policyc failed, and findings may be missing: {words}"
    hint = "report this bug in policyc; the editor's log of the server has the trace"
    return Diagnostic("", Severity.ERROR, message, Span(name, 0, 0), hint=hint)


async def _awaited(work: Awaitable[None]) -> None:
    await work


def _end(process: Process) -> None:
    """End the check of all files if it still runs."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
