# SPDX-License-Identifier: Apache-2.0
"""An editor for tests: the client of pygls, which starts `policyc lsp` and keeps what it publishes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

DEADLINE_S = 20
SERVER = (sys.executable, "-m", "policyc.compiler.cli", "lsp", "--stdio")
Published = types.PublishDiagnosticsParams


class Editor:
    """An editor with one folder open. Every wait has a deadline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("test", "1")
        self.published: list[Published] = []
        self._news = asyncio.Condition()
        self._versions: dict[str, int] = {}

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def _(params: Published) -> None:
            async with self._news:
                self.published.append(params)
                self._news.notify_all()

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def _registered(_: types.RegistrationParams) -> None:
            return None

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def _message(params: types.ShowMessageParams) -> None:
            raise AssertionError(params.message)

    async def start(self) -> None:
        """Start the server and shake hands."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        await self.client.start_io(*SERVER, cwd="/", env=environment)
        capabilities = types.ClientCapabilities(
            workspace=types.WorkspaceClientCapabilities(
                workspace_edit=types.WorkspaceEditClientCapabilities(
                    document_changes=True, resource_operations=[types.ResourceOperationKind.Delete]
                ),
                did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(True),
            )
        )
        given = types.InitializeParams(
            capabilities, process_id=os.getpid(), root_uri=self.folder.as_uri()
        )
        async with asyncio.timeout(DEADLINE_S):
            await self.client.initialize_async(given)
        self.client.initialized(types.InitializedParams())

    async def stop(self) -> int:
        """Shut the server down; its exit code."""
        async with asyncio.timeout(DEADLINE_S):
            await self.client.shutdown_async(None)
            self.client.exit(None)
            process = self.client._server  # the client has no accessor of its process
            assert process is not None
            code = await process.wait()
            await self.client.stop()
        return code

    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str | None = None) -> None:
        """Open a document with a text, by default that of its file."""
        text = (self.folder / name).read_bytes().decode() if text is None else text
        self._versions[name] = 1
        item = types.TextDocumentItem(self.uri(name), "yaml", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def edit(self, name: str, text: str) -> int:
        """Replace the text of a document; its new version."""
        self._versions[name] += 1
        version = self._versions[name]
        document = types.VersionedTextDocumentIdentifier(version, self.uri(name))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return version

    def close(self, name: str) -> None:
        """Close a document."""
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def save(self, name: str, text: str) -> None:
        """Write a file, and tell the server that it was saved."""
        (self.folder / name).write_text(text)
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(document))

    def tell(self, name: str, what: types.FileChangeType) -> None:
        """Tell the server that a file changed on disk."""
        events = [types.FileEvent(self.uri(name), what)]
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))

    async def until(
        self,
        name: str,
        holds: Callable[[list[types.Diagnostic]], bool],
        version: int | None = None,
        since: int = 0,
    ) -> list[types.Diagnostic]:
        """The first published diagnostics of a file, of this version if given, that meet a condition.

        `since` leaves out so many publications at the beginning.
        """
        uri, seen = self.uri(name), since
        async with asyncio.timeout(DEADLINE_S), self._news:
            while True:
                for each in self.published[seen:]:
                    is_meant = version is None or each.version == version
                    if each.uri == uri and is_meant and holds(list(each.diagnostics)):
                        return list(each.diagnostics)
                seen = len(self.published)
                await self._news.wait()

    async def hover(self, name: str, line: int, character: int) -> str:
        """The words of a hover; empty if there is none."""
        given = types.HoverParams(
            types.TextDocumentIdentifier(self.uri(name)), types.Position(line, character)
        )
        async with asyncio.timeout(DEADLINE_S):
            found = await self.client.text_document_hover_async(given)
        return getattr(found.contents, "value", "") if found else ""

    async def definitions(self, name: str, line: int, character: int) -> list[types.Location]:
        """The places that a definition leads to."""
        given = types.DefinitionParams(
            types.TextDocumentIdentifier(self.uri(name)), types.Position(line, character)
        )
        async with asyncio.timeout(DEADLINE_S):
            found = await self.client.text_document_definition_async(given)
        return [each for each in found or () if isinstance(each, types.Location)]

    async def fixes(self, name: str, line: int) -> list[types.CodeAction]:
        """The code actions of a line."""
        spot = types.Range(types.Position(line, 0), types.Position(line + 1, 0))
        given = types.CodeActionParams(
            types.TextDocumentIdentifier(self.uri(name)), spot, types.CodeActionContext([])
        )
        async with asyncio.timeout(DEADLINE_S):
            found = await self.client.text_document_code_action_async(given)
        return [each for each in found or () if isinstance(each, types.CodeAction)]


def codes(found: list[types.Diagnostic]) -> list[str]:
    """The codes of diagnostics, in order."""
    return [str(each.code) for each in found]


@asynccontextmanager
async def editor(folder: Path) -> AsyncIterator[Editor]:
    """An editor whose server must end with exit code 0."""
    made = Editor(folder)
    await made.start()
    yield made
    code = await made.stop()
    assert code == 0, f"the server exits with {code}"
