# SPDX-License-Identifier: Apache-2.0
"""Files that a kustomization lists are not deleted: `kustomize build` would then fail."""

from pathlib import Path

from policyc.compiler.driver.check.fixes.edits import NotEditableError

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


def refuse_listed(path: str) -> None:
    """Raise NotEditableError if a kustomization of a folder above the file names it."""
    file = Path(path).absolute()
    for folder in file.parents:
        for name in NAMES:
            listing = folder / name
            if listing.is_file() and _names(listing, file.relative_to(folder).as_posix()):
                raise NotEditableError(f"{listing} lists the file, which holds nothing else")


def _names(listing: Path, relative: str) -> bool:
    return relative in listing.read_text(encoding="utf-8", errors="replace")
