# SPDX-License-Identifier: Apache-2.0
"""The list of installed packages equals that of Python's own modules."""

import sys
from importlib import metadata, resources
from pathlib import Path

import pytest

from policyc.compiler.driver import installed
from policyc.compiler.driver.installed import folder_of
from policyc.compiler.driver.z3_release import z3_release


def release_of(distribution: str) -> str:
    installed.release_of.cache_clear()
    return installed.release_of(distribution)


NAMES = ["policyc", "z3-solver", "click", "PyYAML", "antlr4-python3-runtime", "types_pyyaml"]


@pytest.mark.parametrize("name", NAMES)
def test_the_release_is_that_of_the_metadata(name: str) -> None:
    assert release_of(name) == metadata.version(name)


def test_the_release_is_read_without_the_metadata_module(monkeypatch: pytest.MonkeyPatch) -> None:
    said = metadata.version("z3-solver")
    monkeypatch.delattr(metadata, "version")
    installed.release_of.cache_clear()
    assert z3_release() == said


def test_a_missing_package_is_an_import_error() -> None:
    with pytest.raises(metadata.PackageNotFoundError):
        release_of("policyc-of-another")


def test_the_first_distribution_with_metadata_gives_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder's name is escaped, and one whose metadata is gone is none."""
    for folder, text in (
        (
            "some_tool-1.0_x.dist-info",
            "Name: some.tool\nVersion: 1.0+x\n\nVersion: 3",
        ),
        ("some_tool_more-2.0.dist-info", "Name: some-tool-more\nVersion: 2.0\n"),
    ):
        (tmp_path / "a" / folder).mkdir(parents=True)
        (tmp_path / "a" / folder / "METADATA").write_text(text)
    (tmp_path / "b" / "some_tool-0.9.dist-info").mkdir(parents=True)
    paths = [str(tmp_path / folder) for folder in ("gone", "b", "a")]
    monkeypatch.setattr(sys, "path", [*paths, *sys.path])
    assert release_of("Some-Tool") == "1.0+x"
    assert release_of("some-tool.more") == "2.0"


@pytest.mark.parametrize("package", ["policyc.ir", "policyc.verifier", "policyc.runtime.datapath"])
def test_a_folder_has_the_files_of_the_package(package: str) -> None:
    names = {item.name for item in resources.files(package).iterdir()}
    assert {item.name for item in folder_of(package).iterdir()} == names


@pytest.mark.parametrize("name", ["policyc.nothing", "policyc.ir.policy"])
def test_a_name_that_is_no_package_has_no_folder(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        folder_of(name)
