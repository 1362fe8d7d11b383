# SPDX-License-Identifier: Apache-2.0
"""The fields of a kustomization that make its result differ from the files beside it.

policyc reads the files of a directory as they are. A kustomization that only lists them builds the same.
Anything else, such as a namespace or a patch, changes objects or adds some.
"""

from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence
from policyc.ir.diagnostics import Report

NAMES = frozenset({"kustomization.yaml", "kustomization.yml", "Kustomization"})
"""The file names that kustomize reads."""
OTHER_PLACES = "resources of other places"
UNREADABLE = "unreadable fields"

_UNCHANGED = frozenset(
    {
        *("apiVersion", "kind", "metadata", "resources", "buildMetadata", "sortOptions"),
        *("configMapGenerator", "secretGenerator", "generatorOptions"),
        *("commonAnnotations", "images", "replicas", "configurations", "openapi"),
    }
)
"""Fields that neither add nor change a policy, and change no label, name or namespace."""
_REMOTE = ("://", "?", "//", "@")
"""A resource with one of these is fetched from elsewhere."""


def changes_of(name: str, data: bytes) -> tuple[str, ...]:
    """The fields that make a kustomization more than a list of files beside it, sorted.

    `OTHER_PLACES` stands for resources that are remote or outside of its directory, and `UNREADABLE` for
    a file that is no kustomization as kustomize reads it.
    """
    scratch = Report()
    documents = list(read_documents(data, name, scratch))
    if scratch.errors or not all(isinstance(each, Mapping) for each in documents):
        return (UNREADABLE,)
    found: set[str] = set()
    for document in documents:
        if isinstance(document, Mapping):
            found |= {field for field, entry in document if not _is_empty(entry.value)} - _UNCHANGED
            if not _are_beside(document.get("resources")):
                found.add(OTHER_PLACES)
    return tuple(sorted(found))


def _is_empty(value: Node) -> bool:
    return value.is_null or (isinstance(value, Sequence) and not value.items)


def _are_beside(resources: Node | None) -> bool:
    """Whether each resource is a file or directory below the kustomization's own."""
    if resources is None or resources.is_null:
        return True
    if not isinstance(resources, Sequence):
        return False
    return all(
        isinstance(item, Scalar)
        and isinstance(item.value, str)
        and not item.value.startswith(("/", ".."))
        and not any(mark in item.value for mark in _REMOTE)
        for item in resources.items
    )
