# SPDX-License-Identifier: Apache-2.0
"""What a snapshot keeps of an object: only fields that policyc reads.

Each kind names its fields, so that a field that is not named stays out. Of pods no environment, image,
argument or volume is kept, and of annotations only `policyc.dev/*`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

Object = Mapping[str, Any]
_STORED = "projectcalico.org/metadata"
_KEPT_PREFIX = "policyc.dev/"
_ADDRESSES = ("InternalIP", "ExternalIP")
_COPY = "knp.default."
"""Calico's API may list NetworkPolicies of Kubernetes as its own, with this reserved prefix."""


def kept(value: Object, api_version: str, kind: str) -> dict[str, Any]:
    """The part of an object that a snapshot keeps. `kubectl` may leave its type out of lists."""
    reduced = _KEEPERS.get((api_version, kind), _policy)(value)
    return {"apiVersion": api_version, "kind": kind, **reduced}


def is_copy(value: Object, api_version: str) -> bool:
    """Whether an object of Calico stands for a NetworkPolicy of Kubernetes, which is read itself."""
    return "projectcalico.org/" in api_version and value["metadata"]["name"].startswith(_COPY)


def _only(value: Any, *names: str) -> dict[str, Any]:
    """The fields with these names that have a value."""
    if not isinstance(value, Mapping):
        return {}
    return {name: value[name] for name in names if value.get(name) not in (None, "", [], {})}


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _metadata(value: Object) -> dict[str, Any]:
    given = value["metadata"]
    notes = given.get("annotations") or {}
    own = {name: text for name, text in notes.items() if name.startswith(_KEPT_PREFIX)}
    return _only(given, "name", "namespace", "labels") | _filled(annotations=own)


def _named(value: Object) -> dict[str, Any]:
    return {"metadata": _metadata(value)}


def _pod(value: Object) -> dict[str, Any]:
    owners = [
        _only(each, "apiVersion", "kind", "name", "controller")
        for each in value["metadata"].get("ownerReferences") or ()
    ]
    given = value.get("spec") or {}
    spec = _only(given, "nodeName", "hostNetwork", "serviceAccountName")
    sidecars = [
        {**_container(each), "restartPolicy": "Always"}
        for each in given.get("initContainers") or ()
        if each.get("restartPolicy") == "Always"
    ]
    containers = [_container(each) for each in given.get("containers") or ()]
    status = _only(value.get("status"), "phase", "podIP", "podIPs", "hostIP", "hostIPs")
    return {
        "metadata": _metadata(value) | _filled(ownerReferences=owners),
        "spec": spec | _filled(containers=containers, initContainers=sidecars),
        **_filled(status=status),
    }


def _container(value: Object) -> dict[str, Any]:
    ports = [_only(each, "name", "containerPort", "protocol") for each in value.get("ports") or ()]
    return _only(value, "name") | _filled(ports=ports)


def _node(value: Object) -> dict[str, Any]:
    addresses = [
        _only(each, "type", "address")
        for each in (value.get("status") or {}).get("addresses") or ()
        if each.get("type") in _ADDRESSES
    ]
    spec = _only(value.get("spec"), "podCIDR", "podCIDRs")
    return _named(value) | _filled(spec=spec, status=_filled(addresses=addresses))


def _service(value: Object) -> dict[str, Any]:
    given = value.get("spec") or {}
    spec = _only(
        given, "type", "clusterIP", "clusterIPs", "selector", "externalIPs", "externalName",
        "externalTrafficPolicy", "internalTrafficPolicy", "sessionAffinity",
    )  # fmt: skip
    ports = [
        _only(each, "name", "protocol", "port", "targetPort", "nodePort")
        for each in given.get("ports") or ()
    ]
    balancer = (value.get("status") or {}).get("loadBalancer") or {}
    ingress = [each for each in (_only(e, "ip") for e in balancer.get("ingress") or ()) if each]
    status = _filled(loadBalancer=_filled(ingress=ingress))
    return _named(value) | _filled(spec=spec | _filled(ports=ports), status=status)


def _policy(value: Object) -> dict[str, Any]:
    """A policy as it is, without status. Calico's store has the labels in an annotation."""
    metadata = _metadata(value)
    labels = (metadata.get("labels") or {}) | _stored_labels(value["metadata"])
    rest = {name: value[name] for name in ("spec", "specs") if value.get(name) is not None}
    return {"metadata": metadata | _filled(labels=labels), **rest}


def _stored_labels(metadata: Object) -> dict[str, str]:
    text = (metadata.get("annotations") or {}).get(_STORED)
    return dict(json.loads(text).get("labels") or {}) if text else {}


_KEEPERS: Mapping[tuple[str, str], Callable[[Object], dict[str, Any]]] = {
    ("v1", "Namespace"): _named,
    ("v1", "Node"): _node,
    ("v1", "Pod"): _pod,
    ("v1", "Service"): _service,
    ("v1", "ServiceAccount"): _named,
}
"""(apiVersion, kind) -> what is kept; any other kind is a policy."""
