# SPDX-License-Identifier: Apache-2.0
"""The labels of Services and EndpointSlices that a node's proxy reads."""

from policyc.runtime.bundle.json_value import JsonValue

_SERVICE_NAME = "kubernetes.io/service-name"
_NOT_FOR_US = ("service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless")


def is_for_another_proxy(metadata: JsonValue) -> bool:
    """Whether the object has one of the labels that tell kube-proxy to ignore it, with any value."""
    labels = _labels(metadata)
    return any(name in labels for name in _NOT_FOR_US)


def service_name(metadata: JsonValue) -> str:
    """The Service of an EndpointSlice; empty: none."""
    return _labels(metadata).get(_SERVICE_NAME, "")


def _labels(metadata: JsonValue) -> dict[str, str]:
    found = metadata.members().get("labels")
    return found.strings() if found and found.raw is not None else {}
