# SPDX-License-Identifier: Apache-2.0
"""The server where something fails, and where a text changes while it is checked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from policyc.compiler.editor import server as module
from policyc.compiler.editor.near_check import NearChecked
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
