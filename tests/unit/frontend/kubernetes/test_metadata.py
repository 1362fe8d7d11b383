# SPDX-License-Identifier: Apache-2.0
"""Parts of a policy that change no verdict, but that the API server would reject."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

LONG = "x" * (256 << 10)
CASES = [
    ("annotations: {a b: c}", "PC0424", "metadata.annotations"),
    (f"annotations: {{a: {LONG}}}", "PC0425", "metadata.annotations"),
    ("finalizers: [a b]", "PC0403", "metadata.finalizers[0]"),
    ("finalizers: a", "PC0201", "metadata.finalizers"),
    ("ownerReferences: [{apiVersion: v1, kind: Pod, name: p}]", "PC0426", "ownerReferences[0].uid"),
    (
        "ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, nmae: x}]",
        "PC0202",
        "metadata.ownerReferences[0].nmae",
    ),
]


def ask(folder: Path, metadata: str = "", more: str = "", *options: str) -> int:
    (folder / "p.yaml").write_text(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"
        f"metadata:\n  name: p\n  {metadata}\nspec: {{}}\n{more}"
    )
    flow = ("192.0.2.1", "192.0.2.2", "tcp/80")
    return run(["eval", "-f", str(folder / "p.yaml"), *options, *flow])


@pytest.mark.parametrize(("metadata", "code", "where"), CASES, ids=[c[2] + c[1] for c in CASES])
def test_metadata_that_the_server_rejects(
    metadata: str, code: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, metadata) == 2
    shown = capsys.readouterr().err
    assert f"error[{code}]" in shown
    assert where in shown


def test_metadata_that_the_api_server_accepts(tmp_path: Path) -> None:
    assert ask(tmp_path, "annotations: {Example.COM/Aa_b: ''}") == 0
    owner = "{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}"
    assert ask(tmp_path, f"ownerReferences: [{owner}]") == 0


def test_status_is_a_field_of_older_servers_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(tmp_path, "", "status: {}\n", "--kube-version", "1.27") == 0
    assert ask(tmp_path, "", "status: {conditions: []}\n", "--kube-version", "1.27") == 0
    assert "status" not in capsys.readouterr().err
    assert ask(tmp_path, "", "status: {conditions: []}\n", "--kube-version", "1.28") == 2
    assert 'unknown field "status"' in capsys.readouterr().err


@pytest.mark.parametrize("status", ["{}", "null", ""])
def test_an_empty_status_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    assert ask(tmp_path, "", f"status: {status}\n", "--kube-version", "1.28") == 0
    assert "note[PC0205]" in capsys.readouterr().err
