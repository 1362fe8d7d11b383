# SPDX-License-Identifier: Apache-2.0
"""A look at the files of a repository: where its policies are, and what policyc does not know."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from policyc.compiler.frontend.kubernetes.objects import is_list
from policyc.compiler.frontend.object_kinds import INTENT, NotYet, Role, Unknown, classify
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.found_files import Found, skipped
from policyc.compiler.frontend.yaml.sources import (
    INTENT_SUFFIX,
    SUFFIXES,
    Content,
    PathSource,
    contents,
)
from policyc.compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence
from policyc.ir.diagnostics import Diagnostic, Report

Name = tuple[str, str, str]
"""Kind, namespace and name of a policy; the namespace is empty if the object names none."""


@dataclass
class Survey:
    """What a directory has. Paths are relative to it.

    `policies` are the files of each policy. `unknown` counts the objects of kinds that policyc does not
    know, by `KIND.GROUP`. `unread` are the first errors of files that cannot be read.
    """

    policies: dict[Name, list[str]] = field(default_factory=dict)
    cluster: list[str] = field(default_factory=list)
    intents: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    not_built: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    n_other: int = 0
    unread: list[Diagnostic] = field(default_factory=list)

    @property
    def policy_files(self) -> list[str]:
        """The files with policies, sorted."""
        return sorted({file for files in self.policies.values() for file in files})

    @property
    def given_twice(self) -> dict[Name, list[str]]:
        """Policies that more than one place defines."""
        return {name: files for name, files in sorted(self.policies.items()) if len(files) > 1}


def look_at(folder: str) -> Survey:
    """Read every file of a directory; nothing is an error."""
    found = Survey()
    report = Report()
    for content in contents([PathSource(folder)], report, (*SUFFIXES, INTENT_SUFFIX)):
        _look_at(content, PurePath(content.name).relative_to(folder).as_posix(), found)
    found.unread += report.errors
    return found


def _look_at(content: Content, path: str, found: Survey) -> None:
    if path.endswith(INTENT_SUFFIX):
        found.intents.append(path)
        return
    over = skipped(content.name, content.data)
    if over is not None:
        lists = {Found.KUSTOMIZATION: found.not_built, Found.TEMPLATE: found.templates}
        if over.what in lists:
            lists[over.what].append(path)
        else:
            found.n_other += 1
        return
    report = Report()
    for document in read_documents(content.data, content.name, report):
        for api_version, kind, node in _objects(document):
            _count(api_version, kind, node, path, found)
    found.unread += report.errors[:1]


def _objects(
    node: Node, api_version: str = "", kind: str = ""
) -> Iterator[tuple[str, str, Mapping]]:
    """The typed objects of a document, those of lists included."""
    if not isinstance(node, Mapping):
        return
    api_version, kind = _text(node, "apiVersion") or api_version, _text(node, "kind") or kind
    if not is_list(api_version, kind):
        if api_version and kind:
            yield api_version, kind, node
        return
    items = node.get("items")
    inherited = ("", "") if kind == "List" else (api_version, kind.removesuffix("List"))
    for item in items.items if isinstance(items, Sequence) else ():
        yield from _objects(item, *inherited)


def _count(api_version: str, kind: str, node: Mapping, path: str, found: Survey) -> None:
    role = classify(api_version, kind)
    if (api_version, kind) == INTENT:
        found.intents.append(path)
    elif role is Role.POLICY or isinstance(role, NotYet) or _is_policy(role):
        metadata = node.get("metadata")
        inner = metadata if isinstance(metadata, Mapping) else node
        name = (kind, _text(inner, "namespace"), _text(inner, "name"))
        found.policies.setdefault(name, []).append(path)
    elif role is Role.CLUSTER:
        if path not in found.cluster[-1:]:
            found.cluster.append(path)
    elif isinstance(role, Unknown):
        group = api_version.rpartition("/")[0]
        found.unknown[f"{kind}.{group}" if group else kind] += 1


def _is_policy(role: object) -> bool:
    return isinstance(role, Unknown) and role.is_policy


def _text(node: Mapping, name: str) -> str:
    value = node.get(name)
    return value.value if isinstance(value, Scalar) and isinstance(value.value, str) else ""


def places_of(files: list[str]) -> list[str]:
    """The entries of the root that hold files, so that files which are added later are found."""
    return sorted({PurePath(file).parts[0] for file in files})
