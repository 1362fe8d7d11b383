# SPDX-License-Identifier: Apache-2.0
"""Annotations, finalizers and owners of an object, as the API server validates them.

Policies do not read them. But a file that the server rejects is not the policy that the server has.
"""

import json

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.names import label_key_problems
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    clipped,
)

MAX_ANNOTATION_BYTES = 256 << 10
_OWNER_FIELDS = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})


def check_details(decoder: Decoder, metadata: Mapping) -> None:
    """Report mistakes in the parts of the metadata that no other code reads."""
    _check_annotations(decoder, metadata)
    _check_finalizers(decoder, metadata)
    _check_owners(decoder, metadata)


def _check_annotations(decoder: Decoder, metadata: Mapping) -> None:
    """ValidateAnnotations."""
    where = "metadata.annotations"
    read = decoder.string_map(metadata, "annotations", "metadata")
    holder = metadata.get("annotations")
    for key in read:
        for problem in label_key_problems(key.lower()):
            assert isinstance(holder, Mapping)
            span = holder.entries[key].key.span
            finding = codes.ANNOTATION_INVALID.at(
                span,
                where,
                where=where,
                value=clipped(json.dumps(key, ensure_ascii=False)),
                problem=problem,
            )
            decoder.report.add(finding)
    size = sum(_n_bytes(text) for pair in read.items() for text in pair)
    if size > MAX_ANNOTATION_BYTES:
        span = metadata.span_of("annotations")
        finding = codes.ANNOTATIONS_TOO_LONG.at(
            span, where, where=where, limit=MAX_ANNOTATION_BYTES
        )
        decoder.report.add(finding)


def _n_bytes(text: str) -> int:
    """The size in UTF-8; JSON may escape half of a surrogate pair, which has no UTF-8 form."""
    return len(text.encode(errors="surrogatepass"))


def _check_finalizers(decoder: Decoder, metadata: Mapping) -> None:
    """ValidateFinalizerName."""
    for index, name in enumerate(decoder.strings(metadata, "finalizers", "metadata")):
        where = f"metadata.finalizers[{index}]"
        for problem in label_key_problems(name):
            span = metadata.span_of_item("finalizers", index)
            finding = codes.NAME_INVALID.at(
                span,
                where,
                where=where,
                value=clipped(json.dumps(name, ensure_ascii=False)),
                problem=problem,
            )
            decoder.report.add(finding)


def _check_owners(decoder: Decoder, metadata: Mapping) -> None:
    """ValidateOwnerReferences: four fields are required."""
    for item, path in decoder.items(metadata, "ownerReferences", "metadata"):
        owner = decoder.mapping(item, path, _OWNER_FIELDS)
        if owner is None:
            continue
        for name in ("controller", "blockOwnerDeletion"):
            decoder.boolean(owner, name, path)
        for name in ("apiVersion", "kind", "name", "uid"):
            if decoder.string(owner, name, path) == "":
                where = f"{path}.{name}"
                decoder.report.add(codes.OWNER_INVALID.at(owner.span_of(name), where, where=where))
