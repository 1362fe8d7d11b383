# SPDX-License-Identifier: Apache-2.0
"""`policyc lsp` as an editor uses it: over standard input and output, with a client of the protocol."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tests.end_to_end.editor import Editor, codes, editor

ROOT = Path(__file__).parents[2]
WEB = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {app: front}}}]
      ports: [{port: 80}]
    - from: [{podSelector: {matchLabels: {app: front}}}]
      ports: [{port: 80, endPort: 80}]
"""
SECOND = """\
    - from: [{podSelector: {matchLabels: {app: front}}}]
      ports: [{port: 80, endPort: 80}]
"""
FIXED = WEB.replace(SECOND, "")
BOTH = ["PC2003", "PC2002"]
"""Each of the two rules is redundant beside the other; the second also never decides."""
OF_TWINS = ["PC2011"]
"""`z` changes nothing beside `web`."""
PODS = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: front-1, namespace: shop, labels: {app: front}}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c, image: i}]}
"""
Script = Callable[[Editor], Coroutine[Any, Any, None]]


def run(folder: Path, script: Script) -> None:
    """Run a script in an editor that has a folder open."""

    async def whole() -> None:
        async with editor(folder) as opened:
            await script(opened)

    asyncio.run(whole())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one policy, one of whose rules is redundant."""
    (tmp_path / "web.yaml").write_text(FIXED)
    return tmp_path


def test_an_edit_shows_findings_of_check_with_a_proved_fix(folder: Path) -> None:
    async def script(at: Editor) -> None:
        at.open("web.yaml")
        assert await at.until("web.yaml", lambda _: True, 1) == []
        version = at.edit("web.yaml", WEB)
        found = await at.until("web.yaml", bool, version)
        assert codes(found) == BOTH
        second = found[1]
        assert second.range.start == types.Position(9, 6)
        assert second.severity is types.DiagnosticSeverity.Warning
        assert "help: remove the rule" in second.message
        assert second.related_information
        assert second.related_information[0].location.range.start == types.Position(7, 6)
        (fix,) = await at.fixes("web.yaml", 9)
        assert fix.kind == types.CodeActionKind.QuickFix
        assert "no verdict changes for every pod" in fix.title
        assert fix.edit and fix.edit.document_changes
        (change,) = fix.edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == version
        assert applied(WEB, change) == FIXED
        whole = await at.until("web.yaml", lambda d: d == [], at.edit("web.yaml", FIXED))
        assert whole == []

    run(folder, script)


def applied(text: str, change: types.TextDocumentEdit) -> str:
    """The text after the edits of whole lines."""
    lines = text.splitlines(keepends=True)
    for edit in reversed(change.edits):
        assert isinstance(edit, types.TextEdit)
        assert edit.range.start.character == edit.range.end.character == 0
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


def test_errors_have_ranges_in_utf_16_and_rules_wait_for_errors_of_other_files(
    folder: Path,
) -> None:
    """The emoji is one character of YAML and two units of the protocol; lines end as on Windows."""
    wrong = WEB.replace("{name: web,", "{annotations: {x: 😀}, name: Web_,").replace("\n", "\r\n")

    async def script(at: Editor) -> None:
        at.open("web.yaml", wrong)
        found = await at.until("web.yaml", bool)
        of_name = [each for each in found if each.range.start.line == 2]
        line = wrong.split("\r\n")[2]
        expected = len(line[: line.index("Web_")].encode("utf-16-le")) // 2
        assert [each.range.start.character for each in of_name][:1] == [expected], found
        at.open("new.yaml", WEB.replace("name: web", "name: new"))
        (waits,) = await at.until("new.yaml", bool)
        assert waits.message == "rules are not checked: 1 file has errors, first web.yaml"
        at.edit("web.yaml", FIXED)
        at.close("new.yaml")  # it was never saved
        await at.until("new.yaml", lambda each: each == [])

    run(folder, script)


def test_hover_and_definition_tell_which_pods(folder: Path) -> None:
    (folder / "policies").mkdir()
    (folder / "web.yaml").rename(folder / "policies" / "web.yaml")
    (folder / "cluster").mkdir()
    (folder / "cluster" / "pods.yaml").write_text(PODS)
    settings = "paths: [policies]\n"
    (folder / ".policyc.yaml").write_text(settings)
    name = "policies/web.yaml"

    async def script(at: Editor) -> None:
        at.open(name)
        await at.until(name, lambda _: True)
        words = await at.hover(name, 7, 20)
        assert "from `pods [shop: app=front]`: TCP 80" in words
        assert words.endswith("Universe: every pod, node and address that could exist.")
        assert await at.definitions(name, 7, 20) == []
        at.save(".policyc.yaml", f"{settings}cluster: [cluster]\n")
        words = await at.hover(name, 7, 20)
        assert "1 pod or workload of 2: shop/front-1" in words
        assert "Universe: the given cluster: 2 pods and workloads" in words
        assert "shop/web-1" in await at.hover(name, 4, 25)
        (place,) = await at.definitions(name, 7, 30)
        assert place.uri == at.uri("cluster/pods.yaml")
        assert place.range.start.line == 6
        assert await at.hover(name, 0, 3) == ""

    run(folder, script)


def test_files_on_disk_and_settings_count_when_they_change(folder: Path) -> None:
    (folder / "values.yaml").write_text("replicas: 3\n")

    async def script(at: Editor) -> None:
        at.open("values.yaml")
        assert await at.until("values.yaml", lambda _: True) == []
        at.open("web.yaml", WEB)
        await at.until("web.yaml", lambda found: codes(found) == BOTH)
        at.save(".policyc.yaml", "check: {severities: {PC2003: error}}\n")
        found = await at.until("web.yaml", lambda found: bool(found) and found[0].severity == 1)
        assert codes(found) == BOTH
        at.save(".policyc.yaml", "check: {severities: {PC9: error}}\n")
        (wrong,) = await at.until(".policyc.yaml", bool)
        assert (wrong.code, wrong.severity) == ("PC2090", types.DiagnosticSeverity.Error)
        at.save(".policyc.yaml", "{}\n")
        (folder / "z.yaml").write_text(FIXED.replace("name: web", "name: z"))
        at.tell("z.yaml", types.FileChangeType.Created)
        found = await at.until("z.yaml", bool)  # every file is checked after a pause
        assert codes(found) == OF_TWINS
        (folder / "z.yaml").unlink()
        at.tell("z.yaml", types.FileChangeType.Deleted)
        await at.until("z.yaml", lambda found: found == [])

    run(folder, script)


def test_a_renamed_file_takes_its_findings_along(folder: Path) -> None:
    async def script(at: Editor) -> None:
        at.open("web.yaml", WEB)
        await at.until("web.yaml", lambda found: codes(found) == BOTH)
        at.close("web.yaml")
        (folder / "web.yaml").rename(folder / "renamed.yaml")
        at.tell("web.yaml", types.FileChangeType.Deleted)
        at.tell("renamed.yaml", types.FileChangeType.Created)
        await at.until("web.yaml", lambda found: found == [])
        at.open("renamed.yaml", WEB)
        await at.until("renamed.yaml", lambda found: codes(found) == BOTH)
        assert at.published[-1].uri == at.uri("renamed.yaml")

    run(folder, script)


def test_a_suppressed_finding_is_silent_and_a_comment_without_reason_is_an_error(
    folder: Path,
) -> None:
    comment = "metadata: {name: web, namespace: shop}"
    quiet = WEB.replace(comment, f"{comment} # policyc:ignore=PC2003,PC2002 wanted")

    async def script(at: Editor) -> None:
        at.open("web.yaml", quiet)
        assert codes(await at.until("web.yaml", lambda _: True, 1)) == []
        version = at.edit("web.yaml", quiet.replace(" wanted", ""))
        found = await at.until("web.yaml", lambda _: True, version)
        assert codes(found) == ["PC2091", "PC2091"]
        assert {each.range.start.line for each in found} == {2}

    run(folder, script)


def test_without_pygls_the_message_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pygls'] = sys.modules['lsprotocol'] = None\n"
        "from policyc.compiler.cli.main import main; main(['lsp'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.endswith("help: pip install 'policyc[editor]'\n")
    assert done.stderr.startswith("policyc: error: not installed: ")
