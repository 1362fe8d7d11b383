# SPDX-License-Identifier: Apache-2.0
"""What an editor may ask: the requests and notifications that the server answers."""

import logging

from lsprotocol import types
from pygls.uris import to_fs_path

from policyc.compiler.driver.check.check import Checked
from policyc.compiler.editor import protocol
from policyc.compiler.editor.cursor import Pointed, pointed_at
from policyc.compiler.editor.near_check import as_diagnostic
from policyc.compiler.editor.quick_fixes import quick_fix
from policyc.compiler.editor.selected import hover_text, is_about_pods, pods_of
from policyc.compiler.editor.server import PolicyServer
from policyc.ir.errors import InputError, InternalError
from policyc.ir.results.common import Finding

_log = logging.getLogger(__name__)
_WATCHED = "**/*.{yaml,yml,json}"


def new_server(version: str) -> PolicyServer:
    """A server with all features."""
    server = PolicyServer(version)
    _documents(server)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_hover)
    server.feature(types.TEXT_DOCUMENT_DEFINITION)(_definition)
    kinds = types.CodeActionOptions([types.CodeActionKind.QuickFix])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, kinds)(_code_actions)
    return server


def _documents(server: PolicyServer) -> None:
    @server.feature(types.INITIALIZED)
    def _(ls: PolicyServer, _: types.InitializedParams) -> None:
        ls.begin()
        _watch(ls)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def _(ls: PolicyServer, params: types.DidOpenTextDocumentParams) -> None:
        ls.text_changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def _(ls: PolicyServer, params: types.DidChangeTextDocumentParams) -> None:
        ls.text_changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def _(ls: PolicyServer, params: types.DidCloseTextDocumentParams) -> None:
        ls.closed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def _(ls: PolicyServer, params: types.DidSaveTextDocumentParams) -> None:
        ls.files_changed([params.text_document.uri])

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def _(ls: PolicyServer, params: types.DidChangeWatchedFilesParams) -> None:
        ls.files_changed(change.uri for change in params.changes)


def _watch(server: PolicyServer) -> None:
    """Ask the editor to tell of files that change on disk, if it can."""
    workspace = server.client_capabilities.workspace
    watched = workspace and workspace.did_change_watched_files
    if watched and watched.dynamic_registration:
        options = types.DidChangeWatchedFilesRegistrationOptions(
            [types.FileSystemWatcher(_WATCHED)]
        )
        method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
        registration = types.Registration("files", method, options)
        server.client_register_capability(types.RegistrationParams([registration]))


def _pointed(
    ls: PolicyServer, params: types.HoverParams | types.DefinitionParams
) -> tuple[str, Pointed] | None:
    """The file, and the part of a policy under the cursor."""
    path = to_fs_path(params.text_document.uri)
    name = None if path is None else ls.session.name_of(path)
    if name is None:
        return None
    text, at = ls.session.text_of(name), params.position
    offset = text.offset((at.line, at.character))
    found = pointed_at(text.text, offset, name, ls.session.reading.policies.policies)
    return None if found is None else (name, found)


def _hover(ls: PolicyServer, params: types.HoverParams) -> types.Hover | None:
    found = _pointed(ls, params)
    if found is None:
        return None
    name, part = found
    cluster = ls.session.reading.cluster
    words = hover_text(part, cluster.universe if cluster else None)
    text = ls.session.text_of(name)
    start, end = (types.Position(*text.position(each)) for each in (part.start, part.end))
    return types.Hover(
        types.MarkupContent(types.MarkupKind.Markdown, words), types.Range(start, end)
    )


def _definition(ls: PolicyServer, params: types.DefinitionParams) -> list[types.Location]:
    found = _pointed(ls, params)
    cluster = ls.session.reading.cluster
    if found is None or cluster is None or not is_about_pods(found[1]):
        return []
    spans = dict.fromkeys(pod.span for pod in pods_of(found[1], cluster.universe))
    return [protocol.location(span, ls.session.text_of) for span in spans if span.line]


async def _code_actions(ls: PolicyServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    path = to_fs_path(params.text_document.uri)
    name = None if path is None else ls.session.name_of(path)
    only = params.context.only
    if name is None or (only and types.CodeActionKind.QuickFix not in only):
        return []
    document = ls.session.document(name)
    stamp, checked = ls.session.checked.get(name, (None, None))
    if document is None or checked is None or stamp != document.stamp:
        return []
    found = []
    for each in _findings_in(ls, name, checked, params.range):
        action = await _code_action(ls, name, checked, each)
        now = ls.session.document(name)
        if now is None or now.stamp != stamp:
            return []
        found += [] if action is None else [action]
    return found


def _findings_in(
    ls: PolicyServer, name: str, checked: Checked, wanted: types.Range
) -> list[Finding]:
    text = ls.session.text_of(name)
    mine = [each for each in checked.result.findings if each.place.span.file == name]
    return [
        each
        for each in mine
        if (spot := protocol.range_of(text, each.place.span)).start <= wanted.end
        and wanted.start <= spot.end
    ]


async def _code_action(
    ls: PolicyServer, name: str, checked: Checked, finding: Finding
) -> types.CodeAction | None:
    session = ls.session
    document, text = session.document(name), session.text_of(name)
    assert document is not None
    try:
        fix = await ls.in_thread(quick_fix, session.reading, checked, finding)
    except (InputError, InternalError, OSError) as failure:  # no proof: no fix
        _log.warning("no fix of %s at %s: %s", finding.code, finding.place.span, failure)
        return None
    if fix is None or (fix.edits is None and not _may_delete(ls)):
        return None
    shown = protocol.diagnostic(as_diagnostic(finding), session.text_of)
    return protocol.code_action(fix, document.uri, document.version, text, shown)


def _may_delete(ls: PolicyServer) -> bool:
    workspace = ls.client_capabilities.workspace
    edits = workspace and workspace.workspace_edit
    operations = (edits.resource_operations if edits else None) or ()
    return types.ResourceOperationKind.Delete in operations
