# SPDX-License-Identifier: Apache-2.0
"""The metadata of Calico's objects, in the API and as its backing store writes them.

A dump of crd.projectcalico.org/v1 has the labels inside an annotation, as JSON. Calico moves them there
so that no other selector matches its objects by them.
"""

import json
from dataclasses import replace

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
    validate_metadata,
)
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.yaml.tree import Mapping

STORED = "projectcalico.org/metadata"
NAMESPACED = frozenset(
    {"NetworkPolicy", "NetworkSet", "StagedNetworkPolicy", "StagedKubernetesNetworkPolicy"}
)


def decode_calico_metadata(
    decoder: Decoder, raw: RawObject, default_namespace: str
) -> ObjectMeta | None:
    """The metadata, validated; None if it is unreadable."""
    found = decode_metadata(decoder, raw.node, default_namespace, is_strict=True)
    if found is None:
        return None
    validate_metadata(found, decoder.report)
    if raw.kind not in NAMESPACED and found.node.get("namespace") is not None:
        where = "metadata.namespace"
        span = found.node.span_of("namespace")
        decoder.report.add(codes.NOT_NAMESPACED.at(span, where, where=where, kind=raw.kind))
    if raw.api_version.startswith("crd."):
        return replace(found, labels={**found.labels, **_stored_labels(decoder, found)})
    return found


def _stored_labels(decoder: Decoder, metadata: ObjectMeta) -> dict[str, str]:
    """The labels that the annotation holds."""
    annotations = metadata.node.get("annotations")
    text = annotations.get(STORED) if isinstance(annotations, Mapping) else None
    value = getattr(text, "text", None)
    if text is None or not isinstance(value, str):
        return {}
    try:
        stored = json.loads(value)
        labels = stored.get("labels") or {}
        if all(isinstance(item, str) for pair in labels.items() for item in pair):
            return dict(labels)
    except (ValueError, AttributeError, RecursionError):
        pass
    where = f"metadata.annotations.{STORED}"
    finding = codes.STORED_METADATA.at(text.span, where, where=where)
    decoder.report.add(finding.help("dump projectcalico.org/v3 objects instead"))
    return {}
