# SPDX-License-Identifier: Apache-2.0
"""Of a kernel test's cases that differ in the address family alone, `make test` runs one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.families import kept_family, mark_twins
from tests.property.length import AT_LENGTH

BEGIN = """
import pytest

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
"""
MANY = BEGIN + "".join(f"@families\ndef test_{i}(family):\n    pass\n\n" for i in range(60))
INI = "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n    kernel\n    slow\n    both_families\n"


class Marking:
    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards
        self.kept: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        mark_twins(reversed(items) if self.backwards else items)
        self.kept = {item.name for item in items if not item.get_closest_marker("slow")}


@pytest.fixture(autouse=True)
def of_make_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(AT_LENGTH, raising=False)


def kept(folder: Path, tests: str, backwards: bool = False) -> set[str]:
    """The names of the tests that are not slow."""
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_it.py").write_text(tests)
    plugin = Marking(backwards)
    options = ["--collect-only", "-qq", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    code = pytest.main([*options, "-c", str(folder / "pytest.ini"), str(folder)], plugins=[plugin])
    sys.modules.pop("test_it")
    assert code == 0
    return plugin.kept


def test_one_of_two_twins_is_slow(tmp_path: Path) -> None:
    found = kept(tmp_path, BEGIN + "@families\ndef test_it(family):\n    pass\n")
    assert found == {f"test_it[{kept_family('test_it.py::test_it[4]')}]"}


def test_every_case_keeps_one_family(tmp_path: Path) -> None:
    cases = (
        "@pytest.mark.parametrize('port', [4, 6, 80, [8]])\n@families\n"
        "def test_it(family, port):\n    pass\n"
    )
    found = kept(tmp_path, BEGIN + cases)
    ports = sorted(name.removeprefix("test_it[").split("-")[1] for name in found)
    assert ports == ["4]", "6]", "80]", "port3]"]


def test_about_half_of_the_tests_run_with_ipv4_and_half_with_ipv6(tmp_path: Path) -> None:
    found = kept(tmp_path, MANY)
    assert len(found) == 60
    assert 20 <= sum(name.endswith("[4]") for name in found) <= 40


def test_a_test_of_one_family_or_none_is_not_slow(tmp_path: Path) -> None:
    tests = "@pytest.mark.parametrize('family', [4])\ndef test_one(family):\n    pass\n"
    tests += "def test_none():\n    pass\n"
    assert kept(tmp_path, BEGIN + tests) == {"test_one[4]", "test_none"}


def test_cases_that_differ_in_more_than_the_family_are_not_slow(tmp_path: Path) -> None:
    tests = (
        "@pytest.mark.parametrize(('family', 'echo'), [(4, 8), (6, 128)])\n"
        "def test_it(family, echo):\n    pass\n"
    )
    assert kept(tmp_path, BEGIN + tests) == {"test_it[4-8]", "test_it[6-128]"}


def test_a_twin_of_what_is_slow_already_is_not_slow(tmp_path: Path) -> None:
    slow = "pytest.param({}, marks=pytest.mark.slow)"
    tests = "".join(
        f"@pytest.mark.parametrize('family', [{values}])\ndef test_{name}(family):\n    pass\n"
        for name, values in (("six", f"{slow.format(4)}, 6"), ("four", f"4, {slow.format(6)}"))
    )
    assert kept(tmp_path, BEGIN + tests) == {"test_six[6]", "test_four[4]"}


def test_a_test_that_needs_no_kernel_is_not_slow(tmp_path: Path) -> None:
    tests = BEGIN.replace("pytestmark", "_") + "@families\ndef test_it(family):\n    pass\n"
    assert kept(tmp_path, tests) == {"test_it[4]", "test_it[6]"}


@pytest.mark.parametrize("where", ["test", "module", "case"])
def test_the_mark_keeps_both(where: str, tmp_path: Path) -> None:
    tests = BEGIN + "@families\ndef test_it(family):\n    pass\n"
    if where == "module":
        tests = tests.replace(
            "pytest.mark.kernel", "[pytest.mark.kernel, pytest.mark.both_families]"
        )
    elif where == "test":
        tests = tests.replace("@families", "@pytest.mark.both_families\n@families")
    else:
        both = "[pytest.param(family, marks=pytest.mark.both_families) for family in (4, 6)]"
        tests = tests.replace("[4, 6]", both)
    assert kept(tmp_path, tests) == {"test_it[4]", "test_it[6]"}


def test_make_test_all_runs_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AT_LENGTH, "1")
    assert kept(tmp_path, BEGIN + "@families\ndef test_it(family):\n    pass\n") == {
        "test_it[4]",
        "test_it[6]",
    }


def test_the_order_of_the_tests_does_not_change_the_choice(tmp_path: Path) -> None:
    assert kept(tmp_path, MANY, backwards=True) == kept(tmp_path, MANY)


def test_every_process_chooses_alike() -> None:
    """Python's own hash of a string differs between processes."""
    names = [f"test_it.py::test_{i}[4]" for i in range(60)]
    code = f"from tests.families import kept_family; print([kept_family(n) for n in {names}])"
    root = Path(__file__).resolve().parents[2]
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{[kept_family(name) for name in names]}\n"}
