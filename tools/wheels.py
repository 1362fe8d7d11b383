# SPDX-License-Identifier: Apache-2.0
"""Build both distributions as wheels: `make wheel`, or `python tools/wheels.py [DIRECTORY]`.

`policyc-node` is what a node runs: the runtime and `policyc node`. `policyc` is everything else, and
requires it. No file is in both. The root's setup.cfg describes the whole, which a checkout installs.
"""

import configparser
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOTS = ("grammar", "ir", "compiler", "backends", "verifier", "runtime", "docs/schemas")
NODE_FILES = (
    "runtime/*",
    "ir/__init__.py",
    "ir/py.typed",
    "ir/printable.py",
    "compiler/__init__.py",
    "compiler/py.typed",
    *(
        f"compiler/cli/{name}.py"
        for name in ("__init__", "__main__", "help", "main", "node*", "service_files", "stopped")
    ),
)
"""The files of policyc-node, as patterns: what `policyc node` imports."""
NODE_REQUIRES = ("click", "pyroute2", "rich")
NODE_EXTRAS = {"signed": ("cryptography",), "yaml": ("PyYAML",)}
"""The requirements of policyc-node, by name; setup.cfg has their versions."""


def is_of_node(path: str) -> bool:
    """Whether a file, relative to the root, belongs to policyc-node."""
    return any(fnmatch(path, pattern) for pattern in NODE_FILES)


def build(target: Path) -> list[Path]:
    """The two wheels, built side by side into a directory; that of the node comes first."""
    with tempfile.TemporaryDirectory(prefix="policyc-wheels-") as folder:
        stages = [_staged(Path(folder), name) for name in ("policyc-node", "policyc")]
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(target)]
        running = [
            subprocess.Popen(
                [*command, str(stage)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            for stage in stages
        ]
        for stage, process in zip(stages, running, strict=True):
            said, _ = process.communicate()
            if process.returncode:
                raise SystemExit(f"{stage.name}: {said.decode(errors='replace')}")
    return [next(target.glob(f"{name}-*.whl")) for name in ("policyc_node", "policyc")]


def _staged(folder: Path, name: str) -> Path:
    """A source tree of one distribution: its files, and a setup.cfg of its own."""
    stage = folder / name
    for path in _files():
        relative = path.relative_to(ROOT)
        if is_of_node(relative.as_posix()) == (name == "policyc-node"):
            (stage / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, stage / relative)
    shutil.copytree(ROOT / "LICENSES", stage / "LICENSES")
    for text in ("README.md", "pyproject.toml"):
        shutil.copyfile(ROOT / text, stage / text)
    with (stage / "setup.cfg").open("w") as written:
        _settings(stage, name).write(written)
    return stage


def _files() -> Iterator[Path]:
    for root in ROOTS:
        for path in (ROOT / root).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _settings(stage: Path, name: str) -> configparser.ConfigParser:
    """The part of the root's setup.cfg that is about one distribution."""
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "setup.cfg")
    for section in settings.sections():
        if not section.startswith(("metadata", "options")):
            settings.remove_section(section)
    options = settings["options"]
    folders = dict(each.split(" = ") for each in _lines(options["package_dir"]))
    packages = [each for each in _lines(options["packages"]) if _has_code(stage, each, folders)]
    options["packages"] = "\n" + "\n".join(packages)
    required = _lines(options["install_requires"])
    settings["metadata"]["name"] = name
    if name == "policyc-node":
        settings["metadata"]["description"] = "Loads policyc's bundles on a node, and monitors them"
        options["install_requires"] = "\n" + "\n".join(_of(NODE_REQUIRES, required))
        scripts = settings["options.entry_points"]
        own = [each for each in _lines(scripts["console_scripts"]) if each.startswith("policyc ")]
        scripts["console_scripts"] = "\n" + "\n".join(own)
        settings["options.extras_require"] = {
            extra: "\n" + "\n".join(_of(names, required)) for extra, names in NODE_EXTRAS.items()
        }
    else:
        same = f"policyc-node=={settings['metadata']['version']}"
        options["install_requires"] = "\n" + "\n".join((same, *required))
        scripts = settings["options.entry_points"]
        own = [each for each in _lines(scripts["console_scripts"]) if each.startswith("kubectl-")]
        scripts["console_scripts"] = "\n" + "\n".join(own)
    return settings


def _lines(value: str) -> list[str]:
    return [line for line in value.splitlines() if line and not line.startswith("#")]


def _has_code(stage: Path, package: str, folders: dict[str, str]) -> bool:
    root = ".".join(package.split(".")[:2])
    folder = stage / folders[root] / Path(*package.split(".")[2:])
    return folder.is_dir() and any(folder.glob("*.*"))


def _of(names: tuple[str, ...], required: list[str]) -> list[str]:
    """The requirements with these names; every name must be there."""
    found = [each for each in required if each.partition(">=")[0] in names]
    assert len(found) == len(names), f"{names} in {required}"
    return found


if __name__ == "__main__":
    for wheel in build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist")):
        print(wheel)
