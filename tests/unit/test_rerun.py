# SPDX-License-Identifier: Apache-2.0
"""What CI does with tests that fail once (tests/rerun.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).resolve().parents[2]

FIRST_TIME = """
def first_time(name):
    seen = pathlib.Path(__file__).with_name(f"{name}.seen")
    was_there = seen.exists()
    seen.touch()
    return not was_there
"""
CONFIG = (
    "[pytest]\nmarkers =\n    waits: waits for the wire\naddopts = --import-mode=importlib -ra\n"
)


def run(folder: Path, tests: str, workers: int = 0) -> tuple[int, list[str]]:
    """The exit code and the lines of a run of these tests, as CI starts it."""
    conftest = f"""
        import sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests import rerun

        def pytest_addoption(parser):
            parser.addoption(rerun.OPTION, action="store_true")

        def pytest_configure(config):
            rerun.register(config)
    """
    (folder / "conftest.py").write_text("\n".join(line[8:] for line in conftest.splitlines()))
    (folder / "pytest.ini").write_text(CONFIG)
    (folder / "test_it.py").write_text(f"import pathlib\nimport pytest\n{FIRST_TIME}\n{tests}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist.plugin",
        "-n",
        str(workers),
        "--rerun-waiting",
    ]
    lean = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=lean, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout.rstrip().splitlines()


def failing_once(n: int, mark: str = "@pytest.mark.waits") -> str:
    return "\n".join(
        f"{mark}\ndef test_{i}():\n    assert not first_time('test_{i}'), 'no frame came'\n"
        for i in range(n)
    )


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_waiting_test_that_passes_the_second_time_passes_and_is_named(
    tmp_path: Path, workers: int
) -> None:
    tests = failing_once(1) + "\ndef test_other():\n    pass\n"
    code, lines = run(tmp_path, tests, workers=workers)
    assert code == 0
    at = lines.index("flaky:")
    assert lines[at + 1] == "  test_it.py::test_0"
    assert any("no frame came" in line for line in lines[:at]), "why it failed the first time"
    assert "2 passed" in lines[-1] and "failed" not in lines[-1]


def test_a_waiting_test_that_fails_twice_fails(tmp_path: Path) -> None:
    code, lines = run(tmp_path, "@pytest.mark.waits\ndef test_0():\n    assert 0\n")
    assert code == 1 and "1 failed" in lines[-1]
    assert "flaky:" not in lines


def test_a_test_without_the_mark_runs_once(tmp_path: Path) -> None:
    code, lines = run(tmp_path, failing_once(1, mark=""))
    assert code == 1 and "1 failed" in lines[-1]


def test_more_than_three_waiting_tests_fail_the_run(tmp_path: Path) -> None:
    code, lines = run(tmp_path, failing_once(4))
    assert code == 1 and "4 failed" in lines[-1]
    assert any("more than 3 tests" in line for line in lines)


def test_an_error_in_a_fixture_counts_as_a_failure(tmp_path: Path) -> None:
    tests = """
@pytest.fixture
def bed():
    assert not first_time("bed")

@pytest.mark.waits
def test_0(bed):
    pass
"""
    code, lines = run(tmp_path, tests)
    assert code == 0 and "1 passed" in lines[-1] and "error" not in lines[-1]
