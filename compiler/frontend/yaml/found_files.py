# SPDX-License-Identifier: Apache-2.0
"""Files without Kubernetes objects in a directory: workflows, charts, packages, templates.

A file that the user names must have objects. A file found in a directory need not: without `apiVersion`
and `kind`, or anything spelled nearly like them, it is skipped and counted. If that cannot be
determined, the file is read as objects, and its mistakes are errors.
"""

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from pathlib import PurePath

from policyc.compiler.frontend.codes import KEY_NOT_STRING, TAB, YAML_SYNTAX
from policyc.compiler.frontend.spelling import likeness
from policyc.compiler.frontend.yaml import codes_found as codes
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Node,
    Sequence,
)
from policyc.ir.diagnostics import Report
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
_BROKEN = frozenset({YAML_SYNTAX.name, TAB.name})
"""A file that is not YAML at all could have been an object."""
_KUSTOMIZATIONS = frozenset({"kustomization.yaml", "kustomization.yml"})


class Found(Enum):
    """The kind of a file found in a directory."""

    OBJECTS = "objects"
    NOTHING = "nothing"
    TEMPLATE = "template"
    KUSTOMIZATION = "kustomization"


def what_is(name: str, data: bytes) -> Found:
    """The kind of a found file; most are recognised without reading them as YAML."""
    path = PurePath(name.rpartition(":")[2])  # for `git:REV:PATH`: the path
    if path.name in _KUSTOMIZATIONS:
        return Found.KUSTOMIZATION
    is_template = b"{{" in data
    if all(field.search(data) for field in _TYPED) and not is_template:
        return Found.OBJECTS
    scratch = Report()
    documents = list(read_documents(data, name, scratch))
    if scratch.errors:
        if is_template and _is_no_yaml(scratch, data):
            return Found.TEMPLATE
        is_broken = any(each.code in _BROKEN for each in scratch.errors)
        return Found.OBJECTS if is_broken or _has_type_like_fields(data) else Found.NOTHING
    if is_template and "templates" in path.parts[:-1]:
        return Found.TEMPLATE
    if path.name == "Chart.yaml" and all(map(_is_chart, documents)):
        return Found.NOTHING
    return Found.OBJECTS if any(map(_is_like_object, documents)) else Found.NOTHING


def _is_no_yaml(report: Report, data: bytes) -> bool:
    """No YAML reader accepts the file. A file that kubectl might read is not a template."""
    lines = data.split(b"\n")
    for finding in report.errors:
        if finding.code in _BROKEN:
            return True
        if finding.code == KEY_NOT_STRING.name and b"{{" in lines[finding.span.line - 1]:
            return True
    return False


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


def say_passed_over(found: Iterable[tuple[str, Found]], report: Report) -> None:
    """One line for the skipped files, by kind; each kustomization by its name."""
    counts: Counter[Found] = Counter()
    first: dict[Found, Span] = {}
    for name, what in found:
        span = Span(name, 0, 0)
        counts[what] += 1
        first.setdefault(what, span)
        if what is Found.KUSTOMIZATION:
            hint = "build it first: kustomize build DIR | policyc ... -f -"
            report.add(codes.NOT_BUILT.at(span, name=name).help(hint))
    for what, code, hint in (
        (Found.NOTHING, codes.FILES_PASSED_OVER, ""),
        (
            Found.TEMPLATE,
            codes.TEMPLATES_PASSED_OVER,
            "render it first: helm template CHART | policyc ... -f -",
        ),
    ):
        if counts[what]:
            files = "1 file" if counts[what] == 1 else f"{counts[what]} files"
            finding = code.at(Span(_folder(first[what]), 0, 0), files=files)
            report.add(finding.help(hint) if hint else finding)


def _folder(span: Span) -> str:
    """The directory of the first file: where a reader begins to search."""
    return str(PurePath(span.file).parent)
