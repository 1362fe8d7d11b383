# SPDX-License-Identifier: Apache-2.0
"""The server where something fails, and where a text changes while it is checked."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from policyc.compiler.editor import server as module
from policyc.compiler.editor.near_check import NearChecked, near_check
from policyc.compiler.editor.server import PolicyServer

POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec: {podSelector: {}, policyTypes: [Ingress]}
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PolicyServer:
    """A server that has one document open, and publishes to a list."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "web.yaml").write_text(POLICY)
    made = PolicyServer("1")
    made.session.reload()
    made.session.open("web.yaml", "file:///web.yaml", POLICY, 1)
    return made


def published(server: PolicyServer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the server publishes from now on."""
    found: list[types.PublishDiagnosticsParams] = []
    monkeypatch.setattr(server, "text_document_publish_diagnostics", found.append)
    return found


def name_of(server: PolicyServer) -> str:
    """The name of the document."""
    (name,) = server.session.open_names()
    return name


def test_a_check_that_fails_is_a_diagnostic(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = published(server, monkeypatch)
    monkeypatch.setattr(module, "near_check", lambda *_: 1 // 0)
    asyncio.run(server._check(name_of(server)))
    (shown,) = found[0].diagnostics
    assert shown.severity is types.DiagnosticSeverity.Error
    assert shown.message.startswith(
        "policyc failed, and findings may be missing: ZeroDivisionError"
    )


def test_reading_that_fails_is_a_diagnostic(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = published(server, monkeypatch)
    server.guarded("", lambda: print(1 // 0))
    assert "ZeroDivisionError" in found[0].diagnostics[0].message


def test_findings_of_an_older_text_are_not_published(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = published(server, monkeypatch)

    def edited_meanwhile(*_: object) -> NearChecked:
        server.session.open("web.yaml", "file:///web.yaml", f"{POLICY}# new\n", 2)
        return NearChecked(())

    monkeypatch.setattr(module, "near_check", edited_meanwhile)
    asyncio.run(server._check(name_of(server)))
    assert found == []


TWICE = """\
  ingress:
    - from: [{podSelector: {}}]
    - from: [{podSelector: {}}]
"""
INGRESS = POLICY.replace("spec: {podSelector: {}, policyTypes: [Ingress]}\n", "") + (
    f"spec:\n  podSelector: {{}}\n  policyTypes: [Ingress]\n{TWICE}"
)


def lines(shown: types.PublishDiagnosticsParams) -> list[tuple[str, int]]:
    """The codes and lines that are shown."""
    return sorted((str(each.code), each.range.start.line) for each in shown.diagnostics)


def test_while_a_check_is_slow_reading_and_what_is_unchanged_is_shown(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The findings of rules move with their lines; the emptied port list of the edit is new."""
    found = published(server, monkeypatch)
    server.session.open("web.yaml", "file:///web.yaml", INGRESS, 2)
    asyncio.run(server._check(name_of(server)))
    (complete,) = found
    rules = [(str(each.code), each.range.start.line) for each in complete.diagnostics]
    assert {line for _, line in rules} == {7, 8}
    wait = threading.Event()
    monkeypatch.setattr(module, "FIRST_S", 0.01)
    monkeypatch.setattr(module, "near_check", lambda *given: wait.wait(20) and near_check(*given))
    edited = INGRESS.replace(
        TWICE,
        TWICE.replace("ingress:\n", "ingress:\n    - from:\n"),
    )

    async def script() -> None:
        server.session.open("web.yaml", "file:///web.yaml", edited, 3)
        work = asyncio.ensure_future(server._check(name_of(server)))
        while len(found) < 2:
            await asyncio.sleep(0.01)
        assert not work.done()
        wait.set()
        await work

    asyncio.run(script())
    _, first, last = found
    assert first.version == last.version == 3
    kept = {(code, line + 1) for code, line in rules}
    assert kept <= set(lines(first))
    assert {line for code, line in set(lines(first)) - kept} == {7}, "what reading says"
    assert 7 in {line for _, line in lines(last)}


def test_a_waiting_check_of_an_older_text_is_not_begun(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(server, monkeypatch)
    begun: list[str] = []
    wait = threading.Event()

    def slow(reading: Any, name: str) -> NearChecked:
        begun.append(server.session.documents[os.path.realpath("web.yaml")].text[:3])
        wait.wait(20)
        return NearChecked(())

    monkeypatch.setattr(module, "near_check", slow)
    monkeypatch.setattr(server, "_check_all", no_check)

    async def script() -> None:
        for version in (2, 3, 4):
            text = f"#{version}\n{POLICY}"
            server.session.open("web.yaml", "file:///web.yaml", text, version)
            server._after_change([name_of(server)])
            await asyncio.sleep(0.05)
        wait.set()
        await asyncio.gather(*server._tasks, return_exceptions=True)

    asyncio.run(script())
    assert begun == ["#2\n", "#4\n"]


async def no_check(_: int) -> None:
    """The check of all files, left out."""


def test_a_suppressed_finding_is_not_shown_and_a_bad_comment_is(
    server: PolicyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = published(server, monkeypatch)
    why = INGRESS.replace("metadata:", "metadata: # policyc:ignore=PC2003 wanted\n ", 1)
    for version, text in enumerate((why, why.replace(" wanted", "")), 2):
        server.session.open("web.yaml", "file:///web.yaml", text, version)
        asyncio.run(server._check(name_of(server)))
    codes = [[each.code for each in shown.diagnostics] for shown in found]
    assert "PC2003" not in codes[0]
    assert "PC2091" in codes[1]
    assert found[1].diagnostics[-1].severity is types.DiagnosticSeverity.Error
