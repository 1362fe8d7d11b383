# SPDX-License-Identifier: Apache-2.0
"""The search for .policyc.yaml, which loads nothing else: most runs have no configuration."""

import os
from pathlib import Path

CONFIG_FILE = ".policyc.yaml"
WRONG_NAME = ".policyc.yml"
"""A likely mistake."""


def nearest_config(folder: Path) -> str | None:
    """The .policyc.yaml of a folder, or of the nearest one above it in the same repository.

    The search ends at the folder that has `.git`: files above it are not under review. Outside of a
    repository only the folder itself counts.
    """
    root = repository_of(folder)
    above = [folder, *folder.absolute().parents]
    last = above.index(root) if root in above else 0
    for each in above[: last + 1]:
        path = each / CONFIG_FILE
        if os.path.lexists(path):
            return os.path.relpath(path, folder) if each != folder else str(path)
    return None


def repository_of(folder: Path) -> Path | None:
    """The folder with `.git` that contains a folder, or is it; None outside of a repository."""
    for each in (folder, *folder.absolute().parents):
        if os.path.lexists(each / ".git"):
            return each
    return None
