# SPDX-License-Identifier: Apache-2.0
"""What pip installs runs the commands of the documents, where there is no clang."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.documented import PAGES, ROOT, make_repository, place_of, prepare, shown_on
from tests.wheel import NODE_PART, WHOLE, built_wheels, environment

QUICK = ROOT / "README.md"
WITH_COMMANDS = [page for page in PAGES if any(shown.runs_here for shown in shown_on(page))]
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: shop}
spec: {podSelector: {}}
"""
TOOLS = ("git", "dot")
"""What the commands run besides policyc."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    make_repository(folder)
    return folder


@pytest.fixture(scope="module")
def policyc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment with what `pip install policyc` installs."""
    folder = tmp_path_factory.mktemp("policyc")
    return environment(folder, built_wheels(tmp_path_factory), WHOLE) / "bin" / "policyc"


@pytest.fixture(scope="module")
def on_a_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment with what `pip install policyc-node` installs."""
    folder = tmp_path_factory.mktemp("node")
    return environment(folder, built_wheels(tmp_path_factory), NODE_PART) / "bin" / "policyc"


def run(command: Path, *arguments: str, path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": str(path), "HOME": str(cwd)}
    words = [str(command), *arguments]
    return subprocess.run(
        words, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page == QUICK else pytest.mark.slow) for page in WITH_COMMANDS],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_documented_commands_run_as_installed(
    page: Path, policyc: Path, repository: Path, tmp_path: Path
) -> None:
    prepare(repository, tmp_path)
    for name in TOOLS:
        tool = shutil.which(name)
        assert tool, f"{name} is not installed"
        (tmp_path / "bin" / name).symlink_to(tool)
    for shown in shown_on(page):
        if shown.runs_here:
            folder = tmp_path / place_of(shown)
            done = run(policyc, *shown.words, path=tmp_path / "bin", cwd=folder)
            assert done.returncode in (0, 1), f"{shown}\n{done.stderr}"


@pytest.mark.slow
def test_a_bytecode_proof_needs_nothing_else(policyc: Path, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(POLICY)
    asked = ("compile", "-f", "p.yaml", "-o", "bundle", "--prove")
    made = run(policyc, *asked, path=tmp_path, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "compiled by LLVM in this process" in made.stdout


@pytest.mark.slow
@pytest.mark.parametrize("asked", [f"{WHOLE}[compiler,proof,native,signed]", NODE_PART])
def test_pip_installs_complete_environments(
    asked: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """By pip itself, at the locked releases. The names of earlier extras are still known."""
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^[\w.-]+==[\w.]+", lock, re.MULTILINE)
    (tmp_path / "pins").write_text("\n".join(pins))
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    pip = [str(tmp_path / "venv" / "bin" / "pip"), "--disable-pip-version-check"]
    wheels = str(built_wheels(tmp_path_factory)[WHOLE].parent)
    options = ["--no-compile", "-c", str(tmp_path / "pins"), "--find-links", wheels]
    done = subprocess.run(
        [*pip, "install", "-q", *options, asked], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    checked = subprocess.run([*pip, "check"], capture_output=True, text=True, check=False)
    assert "No broken requirements" in checked.stdout
    name = asked.partition("[")[0]
    done = run(tmp_path / "venv" / "bin" / "policyc", "--version", path=tmp_path, cwd=tmp_path)
    assert done.stdout.startswith(f"{name}, version ")


def test_a_node_lists_its_commands_and_says_what_has_the_others(
    on_a_node: Path, tmp_path: Path
) -> None:
    shown = run(on_a_node, "--help", path=tmp_path, cwd=tmp_path).stdout
    assert "  node " in shown and "compile " not in shown.partition("Commands:")[2]
    done = run(on_a_node, "compile", "-f", "x", "-o", "y", path=tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "policyc: error: policyc-node has no such command\nhelp: pip install policyc\n"
    )
    version = run(on_a_node, "--version", path=tmp_path, cwd=tmp_path).stdout
    assert version.startswith("policyc-node, version ")


def test_every_missing_requirement_is_named_at_once(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    installed = environment(tmp_path, built_wheels(tmp_path_factory), WHOLE)
    (site,) = installed.glob("lib/python*/site-packages")
    for each in (*site.glob("yaml"), *site.glob("[Pp]y[Yy][Aa][Mm][Ll]*.dist-info"),
                 *site.glob("z3*")):  # fmt: skip
        each.unlink()
    (tmp_path / "p.yaml").write_text("")
    done = run(
        installed / "bin" / "policyc", "check", "-f", "p.yaml",
        path=Path(os.devnull), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 3
    assert (
        "policyc: error: not installed: PyYAML, z3-solver\nhelp: pip install policyc\n"
        in done.stderr
    )
