# SPDX-License-Identifier: Apache-2.0
"""The installed software: the folders of our packages, and the releases of distributions.

`importlib.resources` and `importlib.metadata` give the same answers, but take as long to load as a short
run.
"""

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_INFO = ".dist-info"


def folder_of(package: str) -> Path:
    """The folder of a package. ModuleNotFoundError if there is none."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def release_of(distribution: str) -> str:
    """The version in the metadata of a distribution: the first one on the module path.

    importlib.metadata.PackageNotFoundError, an ImportError, if it is not installed.
    """
    wanted = _normalized(distribution)
    for entry in sys.path:
        for name in _infos_in(entry):
            if _normalized(name.removesuffix(_INFO).rpartition("-")[0]) == wanted:
                version = _version_in(Path(entry, name, "METADATA"))
                if version:
                    return version
    from importlib import metadata  # it supports eggs and archives, and raises the right error

    return metadata.version(distribution)


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


@cache
def _infos_in(entry: str) -> list[str]:
    try:
        with os.scandir(entry or ".") as items:
            return [item.name for item in items if item.name.endswith(_INFO)]
    except OSError:
        return []


def _version_in(path: Path) -> str:
    """The header `Version`, empty if it cannot be read."""
    try:
        head, _, _ = path.read_text("utf-8").partition("\n\n")
    except OSError:
        return ""
    found = (line.partition(":") for line in head.splitlines())
    return next((value.strip() for key, _, value in found if key.lower() == "version"), "")
