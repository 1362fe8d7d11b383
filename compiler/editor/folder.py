# SPDX-License-Identifier: Apache-2.0
"""The files of policies as an editor has them: texts of open documents in place of files on disk."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from policyc.compiler.driver.settings.settings import NO_SETTINGS, Settings, read_settings
from policyc.compiler.frontend.codes import NOTHING_HERE
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import SUFFIXES, Content, PathSource, contents
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError


@dataclass(frozen=True, slots=True)
class Folder:
    """The settings and the files, by the names that findings give them.

    `findings` are about the settings, and about files that cannot be opened. Names are relative to the
    working directory, which is the folder of the editor.
    """

    settings: Settings
    files: Mapping[str, Content]
    findings: tuple[Diagnostic, ...] = ()

    @staticmethod
    def empty() -> "Folder":
        """No files."""
        return Folder(NO_SETTINGS, {})

    @property
    def options(self) -> ReadOptions:
        """How the files are read."""
        return ReadOptions(
            allow_unknown_kinds=self.settings.allow_unknown_kinds,
            selection=self.settings.selection,
        )


Overlays = Mapping[str, str]
"""The texts of open documents by the real paths of their files."""


def read_folder(overlays: Overlays) -> Folder:
    """The working directory as it is on disk, with open documents in place of their files."""
    try:
        settings = read_settings(None)
    except InputError as failure:
        return Folder(NO_SETTINGS, {}, tuple(failure.findings))
    report = Report()
    paths = [path for path in settings.paths if Path(path).exists()] or [os.curdir]
    sources = [PathSource(path) for path in paths]
    files = {}
    for each in contents(sources, report, selection=settings.selection):
        path = os.path.realpath(each.path)
        text = overlays.get(path)
        files[each.name] = each if text is None else with_text(each, text)
    known = {os.path.realpath(each.path) for each in files.values()}
    for path, text in overlays.items():
        if path not in known:
            files |= {each.name: each for each in _new_file(settings, paths, path, text)}
    errors = [each for each in report.errors if each.code != NOTHING_HERE.name]
    return Folder(settings, dict(sorted(files.items())), tuple(errors))


def _new_file(settings: Settings, paths: list[str], file: str, text: str) -> Iterator[Content]:
    """A document that is not on disk, if it would be read there."""
    for path in paths:
        real = os.path.realpath(path)
        if file.startswith(f"{real}{os.sep}") and file.endswith(SUFFIXES):
            name = str(Path(path) / os.path.relpath(file, real))
            if not settings.selection or settings.selection.in_folder(path)(name):
                yield Content(name, text.encode("utf-8", "surrogatepass"), name, is_found=True)
                return


def with_text(content: Content, text: str) -> Content:
    """The content of an open document."""
    data = text.encode("utf-8", "surrogatepass")
    return Content(content.name, data, content.path, content.is_found)
