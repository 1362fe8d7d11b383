# SPDX-License-Identifier: Apache-2.0
"""A wheel carries all it needs, and a node needs no compiler."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from policyc.compiler.cli import main
from tests.wheel import built_wheel

ROOT = Path(__file__).parents[2]
NODE_PACKAGES = ("click", "rich", "pygments", "markdown_it", "mdurl", "pyroute2")
"""What `pip install policyc[node]` brings: the declared packages and what they need."""
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: shop}
spec: {podSelector: {}}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel unpacked elsewhere, as an installation without dependencies."""
    target = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def run(
    target: Path, *arguments: str, path: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """`policyc` from `target`, without access to this checkout."""
    code = "import sys; from policyc.compiler.cli.main import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-S", "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (target, *path)))},
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )


def site_packages() -> Path:
    spec = importlib.util.find_spec("click")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parents[1]


def test_the_wheel_holds_every_package_and_the_c(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("grammar", "ir", "compiler", "backends", "verifier", "runtime"):
        for path in (ROOT / folder).rglob("*.py"):
            assert f"policyc/{path.relative_to(ROOT)}" in names
    for path in (ROOT / "runtime" / "datapath").glob("*.[ch]"):
        assert f"policyc/runtime/datapath/{path.name}" in names
    assert not [name for name in names if name.startswith("policyc/tests")]


@pytest.mark.parametrize("backend", ["llvm", pytest.param("c", marks=pytest.mark.slow)])
def test_a_bundle_compiled_by_the_wheel_is_the_checkout_s(
    installed: Path, tmp_path: Path, backend: str
) -> None:
    (tmp_path / "deny.yaml").write_text(POLICY)
    command = ["compile", "-f", str(tmp_path / "deny.yaml"), "--backend", backend, "-o"]
    there, here = tmp_path / "there", tmp_path / "here"
    done = run(installed, *command, str(there), path=(site_packages(),))
    assert done.returncode == 0, done.stderr
    assert main.run([*command, str(here)]) == 0
    files = sorted(p.relative_to(here) for p in here.rglob("*") if p.is_file())
    assert files == sorted(p.relative_to(there) for p in there.rglob("*") if p.is_file())
    for name in files:
        assert (here / name).read_bytes() == (there / name).read_bytes(), name


def test_the_wheel_has_the_schemas_and_needs_no_compiler_for_them(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "click").symlink_to(site_packages() / "click")
    listed = run(installed, "schema", path=(tmp_path,))
    folder = ROOT / "docs" / "schemas"
    assert listed.stdout.split() == sorted(
        path.name.removesuffix(".schema.json") for path in folder.glob("*.json")
    )
    shown = run(installed, "schema", "intent", path=(tmp_path,))
    assert shown.stdout == (folder / "intent.schema.json").read_text()


def test_the_wheel_reads_the_rule_language(installed: Path) -> None:
    policies = str(ROOT / "examples" / "extended" / "policies" / "guardrails.yaml")
    flow = ("192.0.2.1", "169.254.169.254", "tcp/80")
    done = run(installed, "eval", "-f", policies, *flow, path=(site_packages(),))
    assert done.returncode == 0, done.stderr
    done = run(installed, "fmt", "--check", policies, path=(site_packages(),))
    assert done.returncode == 0, done.stderr


def test_node_commands_work_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    """No PyYAML and no z3 in reach: `node` runs, `compile` says which extra it needs."""
    site = tmp_path / "site"
    site.mkdir()
    for name in NODE_PACKAGES:
        (site / name).symlink_to(site_packages() / name)
    distribution = f"policyc-{importlib.metadata.version('policyc')}.dist-info"
    assert (installed / distribution).is_dir()
    state = ("--bpffs", str(tmp_path / "no-bpffs"))
    status = run(installed, "node", "status", *state, path=(site,))
    assert "ModuleNotFoundError" not in status.stderr
    assert status.returncode in (0, 3)
    load = run(installed, "node", "load", str(tmp_path), "--endpoints", "none", path=(site,))
    assert load.returncode == 2
    assert "manifest.json" in load.stderr
    missing = run(installed, "compile", "-f", "x.yaml", "-o", "bundle", path=(site,))
    assert missing.returncode == 3
    assert "policyc[" in missing.stderr
