# SPDX-License-Identifier: Apache-2.0
"""The folder vscode/: the fields that VS Code needs, and the command that the extension starts."""

import json
import subprocess
from pathlib import Path

import pytest

from policyc.compiler.cli.main import COMMANDS

FOLDER = Path(__file__).parents[3] / "vscode"
PACKAGE = json.loads((FOLDER / "package.json").read_text())


def test_the_package_has_what_vs_code_needs() -> None:
    assert {"name", "publisher", "version", "engines", "main", "contributes"} <= PACKAGE.keys()
    assert PACKAGE["engines"]["vscode"].startswith("^")
    assert (FOLDER / PACKAGE["main"]).is_file()
    assert "vscode-languageclient" in PACKAGE["dependencies"]


def test_the_command_of_the_extension_exists_and_a_folder_cannot_set_it() -> None:
    setting = PACKAGE["contributes"]["configuration"]["properties"]["policyc.command"]
    program, command, option = setting["default"]
    assert (program, option) == ("policyc", "--stdio")
    assert command in COMMANDS
    assert setting["scope"] == "machine"
    assert 'getConfiguration("policyc").get("command")' in (FOLDER / PACKAGE["main"]).read_text()


@pytest.mark.slow  # node is installed for `make test-all` alone
def test_node_accepts_the_extension() -> None:
    subprocess.run(["node", "--check", str(FOLDER / PACKAGE["main"])], check=True)
