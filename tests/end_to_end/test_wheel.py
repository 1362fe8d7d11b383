# SPDX-License-Identifier: Apache-2.0
"""Two wheels carry all that is needed, and a node needs one of them."""

import ast
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from policyc.compiler.cli import main
from tests.wheel import NODE_PART, WHOLE, built_wheels, unpacked

ROOT = Path(__file__).parents[2]
PARTS = ("grammar", "ir", "compiler", "backends", "verifier", "runtime")
NODE_PACKAGES = ("click", "rich", "pygments", "markdown_it", "mdurl", "pyroute2")
"""What `pip install policyc-node` brings: the declared packages and what they need."""
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: shop}
spec: {podSelector: {}}
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return built_wheels(tmp_path_factory)


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels unpacked elsewhere, as an installation without dependencies."""
    target = tmp_path_factory.mktemp("site")
    unpacked(wheels, WHOLE, target)
    return target


@pytest.fixture(scope="module")
def on_a_node(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the node unpacked elsewhere."""
    target = tmp_path_factory.mktemp("node")
    unpacked(wheels, NODE_PART, target)
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


def test_the_wheels_hold_every_package_and_the_c_once(wheels: dict[str, Path]) -> None:
    files = [name for wheel in wheels.values() for name in zipfile.ZipFile(wheel).namelist()]
    names = {name for name in files if ".dist-info/" not in name}
    assert len(names) == len([name for name in files if ".dist-info/" not in name])
    for folder in PARTS:
        for path in (ROOT / folder).rglob("*.py"):
            assert f"policyc/{path.relative_to(ROOT)}" in names
    for path in (ROOT / "runtime" / "datapath").glob("*.[ch]"):
        assert f"policyc/runtime/datapath/{path.name}" in names
    assert not [name for name in names if name.startswith("policyc/tests")]


def test_each_wheel_installs_its_own_programs(wheels: dict[str, Path]) -> None:
    """Kubectl finds its plugin by the name `kubectl-policyc`."""
    programs = {}
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as files:
            (listed,) = (each for each in files.namelist() if each.endswith("entry_points.txt"))
            lines = files.read(listed).decode().splitlines()
        programs[name] = [line for line in lines if " = " in line]
    assert programs == {
        NODE_PART: ["policyc = policyc.compiler.cli.main:main"],
        WHOLE: ["kubectl-policyc = policyc.compiler.cli.kubectl_plugin:main"],
    }


AFTER_THE_NODE = {"policyc.backends.report.text", "policyc.compiler.cli.prove"}
"""What the command line imports for other commands, and for `--reprove`, which policyc has."""


def test_the_node_s_wheel_has_what_its_modules_import_and_nothing_else(
    wheels: dict[str, Path],
) -> None:
    """Imports inside functions count, too. The runtime is whole: any module may be asked for."""
    has = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in zipfile.ZipFile(wheels[NODE_PART]).namelist()
        if name.endswith(".py")
    }
    start = {
        "policyc.compiler.cli.main",
        "policyc.compiler.cli.node",
        "policyc.compiler.cli.__main__",
    }
    runtime = {name for name in has if name.startswith("policyc.runtime")}
    assert needed(start | runtime) == has


def test_every_imported_distribution_is_required(wheels: dict[str, Path]) -> None:
    """By policyc itself, or by one of its extras; and the node's by policyc-node."""
    graph = grimp.build_graph(
        *(f"policyc.{part}" for part in PARTS),
        include_external_packages=True,
        exclude_type_checking_imports=True,
        cache_dir=None,
    )
    assert distributions(graph.modules) == requirements(wheels[WHOLE], but=("dev", "plots"))
    in_node = filter(is_of_node, graph.modules)
    imported = set().union(*map(graph.find_modules_directly_imported_by, in_node))
    assert distributions(imported) == requirements(wheels[NODE_PART])


def is_of_node(module: str) -> bool:
    path = module.partition(".")[2].replace(".", "/")
    return bool(wheels_tool().is_of_node(f"{path}.py"))


@cache
def wheels_tool() -> Any:
    """The module tools/wheels.py."""
    spec = importlib.util.spec_from_file_location("wheels", ROOT / "tools" / "wheels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def distributions(modules: Iterable[str]) -> set[str]:
    """The distributions of modules that are neither ours nor Python's."""
    known = importlib.metadata.packages_distributions()
    tops = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names - {"policyc"}
    return {canonicalize_name(known.get(top, [top])[0]) for top in tops}


def requirements(wheel: Path, but: tuple[str, ...] = ()) -> set[str]:
    """The names of what a wheel requires, with all of its extras but some; without our own."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("/METADATA"))
        lines = archive.read(name).decode().splitlines()
    found = [
        Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-Dist:")
    ]
    kept = [each for each in found if not any(f'"{extra}"' in str(each.marker) for extra in but)]
    return {canonicalize_name(each.name) for each in kept} - {NODE_PART}


def test_policyc_requires_the_policyc_node_of_its_release(wheels: dict[str, Path]) -> None:
    release = importlib.metadata.version(WHOLE)
    assert {wheel.name.split("-")[1] for wheel in wheels.values()} == {release}
    with zipfile.ZipFile(wheels[WHOLE]) as archive:
        said = archive.read(f"policyc-{release}.dist-info/METADATA").decode()
    assert f"Requires-Dist: policyc-node=={release}\n" in said


def needed(start: set[str]) -> set[str]:
    """The modules of ours that some import, directly or not, and their packages."""
    seen: set[str] = set()
    todo = set(start)
    while todo:
        name = todo.pop()
        if name in seen or name in AFTER_THE_NODE or name == "policyc":
            continue
        path = file_of(name)
        if path is None:
            continue
        seen.add(name)
        todo.add(name.rpartition(".")[0])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                todo.add(node.module)
                todo |= {f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Import):
                todo |= {each.name for each in node.names}
    return seen


def file_of(module: str) -> Path | None:
    """The file of a module of ours."""
    first, _, rest = module.partition(".")
    base = ROOT / rest.replace(".", "/")
    found = [each for each in (base.with_suffix(".py"), base / "__init__.py") if each.is_file()]
    return found[0] if first == "policyc" and rest and found else None


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


def test_the_wheel_writes_a_page_with_its_scripts(installed: Path, tmp_path: Path) -> None:
    policies = str(ROOT / "examples" / "opened-port")
    sides = (f"{policies}/before.yaml", f"{policies}/after.yaml")
    run(installed, "report", *sides, "-o", str(tmp_path / "r.html"), path=(site_packages(),))
    document = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "The Cytoscape Consortium" in document
    assert "class Matrix" in document


def test_the_wheel_reads_the_rule_language(installed: Path) -> None:
    policies = str(ROOT / "examples" / "extended" / "policies" / "guardrails.yaml")
    flow = ("192.0.2.1", "169.254.169.254", "tcp/80")
    done = run(installed, "eval", "-f", policies, *flow, path=(site_packages(),))
    assert done.returncode == 0, done.stderr
    done = run(installed, "fmt", "--check", policies, path=(site_packages(),))
    assert done.returncode == 0, done.stderr


def test_node_commands_work_without_a_compiler(on_a_node: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name in NODE_PACKAGES:
        (site / name).symlink_to(site_packages() / name)
    state = ("--bpffs", str(tmp_path / "no-bpffs"))
    status = run(on_a_node, "node", "status", *state, path=(site,))
    assert "ModuleNotFoundError" not in status.stderr
    assert status.returncode in (0, 3)
    load = run(on_a_node, "node", "load", str(tmp_path), "--endpoints", "none", path=(site,))
    assert load.returncode == 2
    assert "manifest.json" in load.stderr
