# SPDX-License-Identifier: Apache-2.0
"""Files without Kubernetes objects in a directory: workflows, charts, packages, templates.

A file that the user names must have objects. A file found in a directory need not: without `apiVersion`
and `kind`, or anything spelled nearly like them, it is skipped and counted. If that cannot be
determined, the file is read as objects, and its mistakes are errors.
"""

import re
from collections.abc import Iterable, Sized
from enum import Enum
from pathlib import PurePath

from policyc.compiler.frontend.codes import KEY_NOT_STRING, TAB, YAML_SYNTAX
from policyc.compiler.frontend.spelling import likeness
from policyc.compiler.frontend.yaml import codes_found as codes
from policyc.compiler.frontend.yaml import kustomizations
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.sources import GIT_SCHEME
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Sequence,
)
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.spans import Span

ALIKE = 0.85
"""The similarity to `apiVersion` or `kind` from which a field's name counts as one, 0 to 1."""
_OTHER_NAMES = frozenset({"appversion", "apiversions", "kinds"})
"""Similar names with another meaning: a chart has an appVersion."""
_TYPED = (
    re.compile(rb"^[\"']?apiVersion[\"']?\s*:", re.M),
    re.compile(rb"^[\"']?kind[\"']?\s*:", re.M),
)
_FIELD = re.compile(rb"^\s*[\"']?([A-Za-z_]{3,14})[\"']?\s*:", re.M)
_TYPE_FIELD = re.compile(rb"(?:^|[\s{,\[\"'?])(?:apiversion|kind)[\"']?\s*:", re.I | re.M)
"""A field that every object has, also in the middle of a line."""
_BROKEN = frozenset({YAML_SYNTAX.name, TAB.name})
"""A file that is not YAML at all could have been an object."""


_BUILD = "build it: --kustomize DIR, or kustomize build DIR | policyc ... -f -"


class Found(Enum):
    """The kind of a file found in a directory."""

    OBJECTS = "objects"
    NOTHING = "nothing"
    TEMPLATE = "template"
    KUSTOMIZATION = "kustomization"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped file; `fields` are those that make a kustomization more than a list of files."""

    name: str
    what: Found
    fields: tuple[str, ...] = ()


def skipped(name: str, data: bytes) -> Skipped | None:
    """A found file that is not read as objects; None: it is."""
    if _path(name).name in kustomizations.NAMES:
        fields = kustomizations.changes_of(name, data)
        if fields is not None:
            return Skipped(name, Found.KUSTOMIZATION, fields)
    what = what_is(name, data)
    return None if what is Found.OBJECTS else Skipped(name, what)


def _path(name: str) -> PurePath:
    """The path of a file; of `git:REV:PATH` the last part."""
    if name.startswith(GIT_SCHEME):
        name = name.removeprefix(GIT_SCHEME).partition(":")[2]
    return PurePath(name)


def what_is(name: str, data: bytes) -> Found:
    """The kind of a found file; most are recognised without reading them as YAML."""
    path = _path(name)
    if b"\0" in data:  # UTF-16 or UTF-32: other readers may find an object
        return Found.OBJECTS
    is_template = b"{{" in data
    if all(field.search(data) for field in _TYPED) and not is_template:
        return Found.OBJECTS
    scratch = Report()
    documents = list(read_documents(data, name, scratch))
    if scratch.errors:
        if is_template and _is_no_yaml(scratch, data):
            return Found.TEMPLATE
        if not _has_whole_documents(scratch, data):
            has_types = _TYPE_FIELD.search(data) or _has_type_like_fields(data)
            is_like = has_types or any(map(_is_like_object, documents))
            return Found.OBJECTS if is_like else Found.NOTHING
    if is_template and "templates" in path.parts[:-1]:
        return Found.TEMPLATE
    if path.name == "Chart.yaml" and all(map(_is_chart, documents)):
        return Found.NOTHING
    return Found.OBJECTS if any(map(_is_like_object, documents)) else Found.NOTHING


def _has_whole_documents(report: Report, data: bytes) -> bool:
    """Whether only plain field names such as `on` are wrong: these leave their document whole."""
    return all(
        each.code == KEY_NOT_STRING.name and not _text_at(each.span, data).startswith(("{", "["))
        for each in report.errors
    )


def _is_no_yaml(report: Report, data: bytes) -> bool:
    """No YAML reader accepts the file. A file that kubectl might read is not a template."""
    return any(
        each.code in _BROKEN
        or (each.code == KEY_NOT_STRING.name and "{{" in _text_at(each.span, data, before=1)[:3])
        for each in report.errors
    )


def _text_at(span: Span, data: bytes, before: int = 0) -> str:
    """The rest of a line from the place of a finding on, or from some characters before it."""
    line = data.split(b"\n")[span.line - 1]
    return line.decode("utf-8-sig", "replace")[max(0, span.column - 1 - before) :]


def _has_type_like_fields(data: bytes) -> bool:
    return any(_is_type_like(name.decode("ascii")) for name in _FIELD.findall(data))


def _is_type_like(name: str) -> bool:
    if name.lower() in _OTHER_NAMES:
        return False
    return max(likeness(name, "apiVersion"), likeness(name, "kind")) >= ALIKE


def _is_like_object(node: Node) -> bool:
    """A mapping with a type, or a misspelt one; or a list with such an item."""
    match node:
        case Mapping():
            return any(map(_is_type_like, node.entries))
        case Sequence():
            return any(isinstance(item, Mapping) and _is_like_object(item) for item in node.items)
        case _:
            return False


def _is_chart(node: Node) -> bool:
    """A Helm chart: it has an apiVersion, and is not an object."""
    return isinstance(node, Mapping) and {"apiVersion", "name", "version"} <= node.entries.keys()


def say_passed_over(found: Iterable[Skipped], report: Report) -> None:
    """One line for the skipped files of each kind."""
    of_kind: dict[Found, list[Skipped]] = {}
    for each in found:
        of_kind.setdefault(each.what, []).append(each)
    if plain := of_kind.get(Found.NOTHING):
        report.add(codes.FILES_PASSED_OVER.at(_folder(plain), files=_counted(plain, "file")))
    if templates := of_kind.get(Found.TEMPLATE):
        files = _counted(templates, "file")
        finding = codes.TEMPLATES_PASSED_OVER.at(_folder(templates), files=files)
        report.add(
            finding.help("render it: --helm CHART, or helm template CHART | policyc ... -f -")
        )
    if built := of_kind.get(Found.KUSTOMIZATION):
        fields = ", ".join(sorted({field for each in built for field in each.fields}))
        files = _counted(built, "kustomization")
        by = f" with {fields}" if fields else ""
        finding = codes.NOT_BUILT.at(_folder(built), files=files, fields=by)
        report.add(finding.help(_BUILD))


def _counted(files: Sized, noun: str) -> str:
    return f"1 {noun}" if len(files) == 1 else f"{len(files)} {noun}s"


def _folder(files: list[Skipped]) -> Span:
    """The directory of the first file: where a reader begins to search."""
    return Span(str(PurePath(files[0].name).parent), 0, 0)
