# SPDX-License-Identifier: Apache-2.0
"""`policyc eval --flows`: what is no file of flows is an error, and said once."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

ROW = "10.0.0.1,10.0.0.2,tcp,80\n"
CASES = {
    "a JSON array": ('[{"src": "10.0.0.1"}]', 1, "a JSON array"),
    "nothing": ("\n\n", 1, "the file is empty"),
    "rows without a header": (ROW * 3, 1, "the first line is not a header"),
    "a header only": ("src,dst,protocol,port\n", 1, "no flow below the header"),
    "an unknown column": ("src,dst,protocol,port,verdict\n" + ROW, 1, "unknown field `verdict`"),
    "a misspelt column": ("source,dst,protocol,port\n" + ROW, 1, "unknown field `source`"),
    "a column twice": ("src,dst,protocol,dst\n" + ROW * 2, 1, "`dst` is given twice"),
    "a column missing": ("src,protocol\n1.2.3.4,tcp\n", 1, "the column `dst` is missing"),
    "a key twice": (
        '{"src": "10.0.0.1", "dst": "10.0.0.2", "dst": "10.0.0.3", "protocol": "47"}',
        1,
        "the field `dst` is given twice",
    ),
    "a cell of 200 kB": ("src,dst,protocol,port\n" + ROW + "x" * 200_000, 3, "not CSV"),
    "a quote that does not end": ('src,dst,protocol,port\n"10.0.0.1,', 2, "not CSV"),
    "too few cells": ("src,dst,protocol\na/b,c/d\n", 2, "this row has 2"),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_flow_files_are_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, line, message = CASES[case]
    (tmp_path / "p.yaml").write_text("# no policies\n")
    flows = tmp_path / "flows"
    flows.write_text(text)
    assert run(["eval", "-f", str(tmp_path / "p.yaml"), "--flows", str(flows)]) == 2
    shown = capsys.readouterr().err
    assert shown.count(message) == 1
    assert f"{flows}:{line}:1: error[PC0701]" in shown


def test_findings_come_in_the_order_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text("# no policies\n")
    rows = ["10.0.0.1,ns/nobody,tcp,80", "10.0.0.1,10.0.0.2,tcp", "10.0.0.1,10.0.0.2,tcp,0"]
    (tmp_path / "flows").write_text("\n".join(["src,dst,protocol,port", *rows]))
    run(["eval", "-f", str(tmp_path / "p.yaml"), "--flows", str(tmp_path / "flows")])
    shown = capsys.readouterr().err
    places = [shown.index(f"flows:{line}:1: error") for line in (2, 3, 4)]
    assert places == sorted(places)
