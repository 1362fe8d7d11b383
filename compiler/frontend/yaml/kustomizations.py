# SPDX-License-Identifier: Apache-2.0
"""Kustomizations: which files are one, and the fields by which they change objects.

policyc reads the files of a directory as they are. A kustomization may leave some out, add others, or
change them.
"""

from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence
from policyc.ir.diagnostics import Report

NAMES = frozenset({"kustomization.yaml", "kustomization.yml"})
"""The file names that kustomize reads, with an ending that policyc reads, too."""
_KINDS = frozenset({"Kustomization", "Component"})
_PLAIN = frozenset({"apiVersion", "kind", "metadata", "resources", "images", "replicas"})
"""Fields that change no policy."""


def changes_of(name: str, data: bytes) -> tuple[str, ...] | None:
    """The fields by which a kustomization changes objects, sorted; None if it is another object."""
    scratch = Report()
    documents = list(read_documents(data, name, scratch))
    if scratch.errors:
        return None
    mappings = [each for each in documents if isinstance(each, Mapping)]
    if any(_kind_of(each) not in _KINDS for each in mappings):
        return None
    found = {
        field
        for each in mappings
        for field, entry in each
        if field not in _PLAIN and not _is_empty(entry.value)
    }
    return tuple(sorted(found))


def _kind_of(node: Mapping) -> str:
    """The kind; kustomize takes a file without one for a kustomization."""
    kind = node.get("kind")
    return kind.text if isinstance(kind, Scalar) else "Kustomization"


def _is_empty(value: Node) -> bool:
    return value.is_null or (isinstance(value, Sequence) and not value.items)
