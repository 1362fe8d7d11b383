# SPDX-License-Identifier: Apache-2.0
"""Messages say one thing, once, and no more of a long value than it takes to recognise it."""

import os
import threading
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

HEAD = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\nspec:\n"
FLOW = ("192.0.2.1", "192.0.2.2", "tcp/80")


def shown(text: str, folder: Path, capsys: pytest.CaptureFixture[str], code: int) -> str:
    (folder / "p.yaml").write_text(HEAD + text)
    assert run(["eval", "-f", str(folder / "p.yaml"), *FLOW]) == code
    return capsys.readouterr().err


@pytest.mark.parametrize("cidr", ["10.0.0.1/8", "010.0.0.0/8", "::ffff:10.0.0.0/104"])
def test_an_invalid_cidr_gives_one_error_and_no_warning(
    cidr: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'  ingress: [{{from: [{{ipBlock: {{cidr: "{cidr}"}}}}]}}]\n'
    found = shown(text, tmp_path, capsys, 2)
    assert found.count("error[") == 1
    assert "warning[" not in found


def test_an_invalid_address_gets_no_prefix_length_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "  ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [foo, 10.0.0.1]}}]}]\n"
    found = shown(text, tmp_path, capsys, 2)
    assert "foo/32" not in found
    assert "write 10.0.0.1/32" in found


def test_a_null_port_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown("  ingress: [{ports: [null]}]\n", tmp_path, capsys, 0)
    assert "warning[PC0502]: spec.ingress[0].ports[0]: null is read as an empty port" in found


@pytest.mark.parametrize(
    "text",
    [
        "  podSelector: {matchLabels: {a: VALUE}}\n",
        "  VALUE: 1\n",
        "  policyTypes: [VALUE]\n",
        "  ingress: VALUE\n",
        "  podSelector: {matchLabels: {VALUE: 1}}\n",
    ],
)
def test_a_long_value_is_cut(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(text.replace("VALUE", "x" * 5000), tmp_path, capsys, 2)
    assert max(len(line) for line in found.splitlines() if "regex" not in line) < 400
    assert found.count("^") <= 120 * found.count("error[")


def test_a_finding_in_a_fifo_does_not_read_it_again(tmp_path: Path) -> None:
    fifo = tmp_path / "p.yaml"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(HEAD + "  ingres: []\n",))
    writer.start()
    assert run(["eval", "-f", str(fifo), *FLOW]) == 2
    writer.join()


def test_an_unreadable_directory_is_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    assert run(["eval", "-f", str(tmp_path), *FLOW]) == 2
    assert capsys.readouterr().err.count("error[") == 1
