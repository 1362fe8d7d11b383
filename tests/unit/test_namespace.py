# SPDX-License-Identifier: Apache-2.0
"""The top-level folders are one namespace, however they are reached."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "folder", ["grammar", "ir", "compiler", "compiler/frontend", "backends", "verifier", "runtime"]
)
def test_a_folder_is_a_package_of_the_namespace(folder: str) -> None:
    module = importlib.import_module("policyc." + folder.replace("/", "."))
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / folder / "__init__.py"


def test_the_schemas_are_package_data() -> None:
    module = importlib.import_module("policyc.schemas")
    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / "docs" / "schemas" / "__init__.py"


def test_every_package_folder_is_declared() -> None:
    """A folder that setup.cfg forgets works in an editable install and is lost in a wheel."""
    from configparser import ConfigParser

    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = set(config["options"]["packages"].split())
    tops = ["grammar", "ir", "compiler", "backends", "verifier", "runtime"]
    found = {"policyc.schemas"} | {
        "policyc." + ".".join(init.parent.relative_to(ROOT).parts)
        for top in tops
        for init in (ROOT / top).rglob("__init__.py")
    }
    assert found == declared
