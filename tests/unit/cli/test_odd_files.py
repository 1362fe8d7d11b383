# SPDX-License-Identifier: Apache-2.0
"""Odd names, endless files and outputs that are full: a line of text and an exit code, no trace."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.frontend.yaml import sources

SCHEMA = Path(__file__).parents[3] / "docs/schemas/diagnostics-v1.schema.json"
POLICY = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p}\nspec: {}\n"
FLOW = ("10.0.0.1", "10.0.0.2", "tcp/80")


def policyc(*arguments: str, output: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "policyc.compiler.cli", *arguments]
    with Path(output).open("w") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_full_standard_output_is_one_line_and_exit_code_3(tmp_path: Path, form: str) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    done = policyc(
        "eval", "-f", str(tmp_path / "p.yaml"), *FLOW, "--format", form, output="/dev/full"
    )
    assert done.returncode == 3
    assert done.stderr == "policyc: error: cannot write the output: No space left on device\n"


def test_eval_succeeds_with_a_closed_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["eval", "-f", str(tmp_path / "p.yaml"), *FLOW]) == 0


def test_a_file_name_that_is_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.yaml"))
    path.write_text(POLICY + "  ingres: []\n" + "x: 1\n")
    assert run(["eval", "-f", str(path), *FLOW]) == 2
    path.write_text(POLICY)
    assert run(["compile", "-f", str(path), "--emit", "policy-ir"]) == 0
    assert "bad\\xff.yaml" in capsys.readouterr().out
    assert run(["eval", "-f", str(path), "--flows", f"{path}.csv"]) == 2
    assert "bad\\xff.yaml.csv" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["eval", *FLOW], ["compile", "--emit", "c"]])
def test_errors_are_one_json_object(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY.replace("{}", "{ingres: []}"))
    assert run([*command, "-f", str(tmp_path / "p.yaml"), "--format", "json"]) == 2
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    assert [finding["code"] for finding in found["diagnostics"]] == ["PC0202"]
    assert "error[PC0202]" in shown.err


def test_a_file_without_an_end_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_BYTES", 2 << 20)
    assert run(["eval", "-f", "/dev/zero", *FLOW]) == 2
    assert "error[PC0118]: /dev/zero is larger than 2 MiB" in capsys.readouterr().err
    assert run(["eval", "-f", "/dev/null", "--flows", "/dev/zero"]) == 2
    assert "error[PC0118]: /dev/zero is larger than 2 MiB" in capsys.readouterr().err


def test_a_fifo_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "p.yaml"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_text, args=(POLICY,))
    writer.start()
    assert run(["eval", "-f", str(fifo), *FLOW]) == 0
    writer.join()


def test_eval_refuses_an_empty_namespace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    assert run(["eval", "-f", str(tmp_path / "p.yaml"), "-n", "", *FLOW]) == 2
    assert '--namespace: error[PC0403]: --namespace: Invalid value: ""' in capsys.readouterr().err
