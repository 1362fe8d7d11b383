# SPDX-License-Identifier: Apache-2.0
"""The settings of a repository: what .policyc.yaml says. See docs/schemas/config.schema.json."""

import os
import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from policyc.compiler.driver.check.config import (
    FAIL_ON,
    CheckConfig,
    severities_of,
    wrong,
)
from policyc.compiler.driver.compare.fail_on import FAIL_ON as DIFF_FAIL_ON
from policyc.compiler.driver.settings.find import CONFIG_FILE, nearest_config, repository_of
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.compiler.frontend.yaml.codes_git import NOT_IN_COMMIT
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.selection import ALL_FILES, Selection
from policyc.compiler.frontend.yaml.sources import (
    GIT_SCHEME,
    PathSource,
    Tool,
    contents,
    read_found,
    read_whole,
)
from policyc.compiler.frontend.yaml.tree import Mapping as YamlMapping
from policyc.compiler.frontend.yaml.tree import Node, Scalar, Sequence
from policyc.ir.diagnostics import Report, Severity
from policyc.ir.errors import InputError
from policyc.ir.spans import Span

_NOT_COMMITTED = (
    "PATH counts from the root of the repository; where the commit has no configuration, "
    "`--config /dev/null` uses none"
)


_SCHEMES = (GIT_SCHEME, *(f"{tool.value}:" for tool in Tool))


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one file; `file` is its name, empty if there is none.

    `paths`, `cluster` and `intents` are paths as the command line would give them: what -f, --cluster
    and --intents are by default; `places` says where the file names them. `fail_on` is the default of
    --fail-on by command.
    """

    file: str = ""
    paths: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    allow_unknown_kinds: frozenset[str] = frozenset()
    fail_on: Mapping[str, str] = field(default_factory=dict, hash=False)
    selection: Selection = ALL_FILES
    check: CheckConfig = field(default_factory=CheckConfig)
    places: Mapping[str, Span] = field(default_factory=dict, hash=False)

    def need(self, paths: Iterable[str]) -> None:
        """Raises InputError if a path does not exist, with its place in the file."""
        report = Report()
        for path in paths:
            if not os.path.lexists(path):
                span, name = self.places[path], os.path.normpath(path)
                wrong(report, span, name, "no such file or directory", "correct or remove it")
        if report.errors:
            raise InputError(report.sorted())


NO_SETTINGS = Settings()


def read_settings(path: str | None, folder: Path | None = None) -> Settings:
    """The settings in `path`, or in the .policyc.yaml nearest to a folder, by default to the current.

    `path` may be `git:REV:PATH`. Without it the file may be missing, and may not be a link, because the
    user did not name it. Raises InputError with all its mistakes.
    """
    report = Report()
    folder = folder or Path()
    if path is None:
        path = nearest_config(folder)
        if path is None:
            return NO_SETTINGS
        data = read_found(path, report)
    elif path.startswith(GIT_SCHEME):
        data = _committed(path, report)
    else:
        data = read_whole(PathSource(path), report)
    documents = [] if data is None else list(read_documents(data, path, report))
    for extra in documents[1:]:
        wrong(report, extra.span, "", "it has more than one document")
    home, repository = _home(path, folder)
    reader = _Reader(report, home, repository)
    found = reader.document(documents[0] if documents else None)
    if report.errors:
        raise InputError(report.sorted())
    return _settings(path, folder, home, repository, found, reader.places)


def _settings(
    file: str,
    folder: Path,
    home: Path,
    repository: str,
    found: dict[str, Any],
    places: Mapping[str, Span],
) -> Settings:
    """The values of a file in terms of the working directory."""
    texts: dict[str, tuple[str, ...]] = {
        name: found.get(name, ()) for name in ("paths", "exclude", "cluster", "intents")
    }

    def here(paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(os.path.relpath(home / path, folder) for path in paths)

    selection = Selection(file, os.path.realpath(home), repository, texts["exclude"])
    fail_on: dict[str, str] = {
        command: found[command] for command in ("check", "diff") if command in found
    }
    return Settings(
        file,
        here(texts["paths"]),
        here(texts["cluster"]),
        here(texts["intents"]),
        frozenset(found.get("allowUnknownKinds", ())),
        fail_on,
        selection if selection else ALL_FILES,
        CheckConfig(found.get("severities", {}), file),
        dict(zip(here(places), places.values(), strict=True)),
    )


def _home(file: str, folder: Path) -> tuple[Path, str]:
    """The directory that a file's paths are relative to, and the root of its repository, if any."""
    above = repository_of(folder)
    root = "" if above is None else os.path.realpath(above)
    if file.startswith(GIT_SCHEME):
        from policyc.compiler.frontend.yaml.git_commits import git_source

        return Path(root, posixpath.dirname(git_source(file).path)), root
    home = (folder / file).parent
    return home, root if Path(os.path.realpath(home)).is_relative_to(root or "/dev/null") else ""


def _committed(path: str, report: Report) -> bytes | None:
    """The file as it is in a commit: a change under review cannot touch it."""
    from policyc.compiler.frontend.yaml.git_commits import git_source

    suffixes = (CONFIG_FILE,)
    said = Report()
    found = list(contents([git_source(path)], said, suffixes))
    for each in said.findings:
        report.add(each.help(_NOT_COMMITTED) if each.code == NOT_IN_COMMIT.name else each)
    if any(each.is_found for each in found):
        wrong(report, Span(path, 0, 0), "--config", "it names a directory", _NOT_COMMITTED)
        return None
    return found[0].data if found else None


class _Reader:
    """Reads the fields of a file into values by name; mistakes go to the report."""

    def __init__(self, report: Report, home: Path, repository: str) -> None:
        self._report = report
        self._home = home
        self._around = Path(repository or os.path.realpath(home))
        self._found: dict[str, Any] = {}
        self.places: dict[str, Span] = {}
        self._fields: dict[str, Callable[[Node, str], None]] = {
            "paths": partial(self._texts, check=self._path_fault),
            "exclude": partial(self._texts, check=_pattern_fault),
            "cluster": partial(self._texts, check=self._path_fault),
            "intents": partial(self._texts, check=self._path_fault),
            "allowUnknownKinds": self._texts,
            "check": partial(
                self._mapping,
                fields={
                    "severities": self._severities,
                    "failOn": partial(self._choice, name="check", of=FAIL_ON),
                },
            ),
            "diff": partial(
                self._mapping,
                fields={"failOn": partial(self._choice, name="diff", of=DIFF_FAIL_ON)},
            ),
        }

    def document(self, node: Node | None) -> dict[str, Any]:
        """The values of the file; an empty file sets nothing."""
        if node is not None:
            self._mapping(node, "", self._fields)
        return self._found

    def _mapping(
        self, node: Node, where: str, fields: Mapping[str, Callable[[Node, str], None]]
    ) -> None:
        if node.is_null:
            return
        if not isinstance(node, YamlMapping):
            wrong(self._report, node.span, where, f"expected a mapping, found {node.describe()}")
            return
        for name, entry in node:
            read = fields.get(name)
            if read is None:
                hint = did_you_mean(name, fields)
                wrong(self._report, entry.key.span, where, f"there is no field `{name}`", hint)
            elif not entry.value.is_null:
                read(entry.value, f"{where}.{name}" if where else name)

    def _texts(self, node: Node, where: str, check: Callable[[str], str] | None = None) -> None:
        """A list of strings; `check` says what is wrong with one, or nothing."""
        if not isinstance(node, Sequence):
            wrong(self._report, node.span, where, f"expected a list, found {node.describe()}")
            return
        found: list[str] = []
        for item in node.items:
            if not (isinstance(item, Scalar) and isinstance(item.value, str) and item.value):
                problem = f"expected a string, found {item.describe()}"
                wrong(self._report, item.span, where, problem)
            elif fault := check(item.value) if check else "":
                wrong(self._report, item.span, where, fault)
            else:
                found.append(item.value)
                self.places.setdefault(item.value, item.span)
        self._found[where] = tuple(found)

    def _path_fault(self, path: str) -> str:
        """A path may not lead out: the author of a change could show any file of the machine."""
        if path == "-" or "\0" in path or path.startswith(_SCHEMES):
            return "expected a path of a file or directory"
        plain = Path(os.path.normpath(path))
        if plain.is_absolute() or plain.parts[:1] == ("..",):
            return "paths are inside the directory of the file, and relative to it"
        real = Path(os.path.realpath(self._home / path))
        if ".git" in real.parts:
            return "expected a path of a file or directory outside of .git"
        if not real.is_relative_to(self._around):
            return f"`{path}` is a link that leads out of the repository"
        return ""

    def _choice(self, node: Node, where: str, name: str, of: tuple[str, ...]) -> None:
        text = node.text if isinstance(node, Scalar) else ""
        if text in of:
            self._found[name] = text
            return
        problem = f"expected {', '.join(of[:-1])} or {of[-1]}, found {node.describe()}"
        wrong(self._report, node.span, where, problem, did_you_mean(text, of))

    def _severities(self, node: Node, where: str) -> None:
        found: dict[str, Severity | None] = severities_of(node, where, self._report)
        self._found["severities"] = found


def _pattern_fault(pattern: str) -> str:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        return f"`{pattern}` is no pattern as in .gitignore"
    return ""
