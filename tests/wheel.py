# SPDX-License-Identifier: Apache-2.0
"""The wheels of this checkout, built once a run, and environments with what pip would install."""

import importlib.metadata
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.shared import made_once

ROOT = Path(__file__).parents[1]
NODE_PART, WHOLE = "policyc-node", "policyc"


def built_wheels(temporary: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each distribution. The first worker that asks builds both."""

    def build(folder: Path) -> None:
        command = [sys.executable, str(ROOT / "tools" / "wheels.py"), str(folder)]
        subprocess.run(command, check=True, capture_output=True)

    folder = made_once(temporary, "wheels", build)
    return {
        name: next(folder.glob(f"{name.replace('-', '_')}-[0-9]*.whl"))
        for name in (NODE_PART, WHOLE)
    }


def unpacked(wheels: dict[str, Path], distribution: str, site: Path) -> None:
    """Unpack the wheel of a distribution, and the wheel of ours that it requires."""
    for name in (NODE_PART, WHOLE)[: 1 + (distribution == WHOLE)]:
        with zipfile.ZipFile(wheels[name]) as archive:
            archive.extractall(site)


def environment(
    folder: Path, wheels: dict[str, Path], distribution: str, extras: frozenset[str] = frozenset()
) -> Path:
    """A virtual environment without pip: a distribution, and what it requires with some extras."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    unpacked(wheels, distribution, site)
    for info in site.glob("policyc*.dist-info"):
        ours = importlib.metadata.PathDistribution(info)
        is_asked_for = ours.metadata["Name"] == distribution
        for name in _needed(ours, extras if is_asked_for else frozenset(), {NODE_PART}):
            _link(importlib.metadata.distribution(name), site)
    script = venv / "bin" / "policyc"
    script.write_text(
        f"#!{venv / 'bin' / 'python'}\nfrom policyc.compiler.cli.main import main\n\nmain()\n"
    )
    script.chmod(0o755)
    return venv


def _needed(
    distribution: importlib.metadata.Distribution, wanted: frozenset[str], seen: set[str]
) -> Iterator[str]:
    """The distributions that one requires with some extras, directly or not, each once."""
    for text in distribution.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
            continue
        if requirement.name not in seen:
            seen.add(requirement.name)
            yield requirement.name
            found = importlib.metadata.distribution(requirement.name)
            yield from _needed(found, frozenset(requirement.extras), seen)


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Link the top-level files and folders of an installed distribution."""
    for top in {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}:
        if top != "__pycache__" and not (site / top).exists():
            (site / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
