# SPDX-License-Identifier: Apache-2.0
"""Flows and their ends, in words and as JSON values, with every attribute that a policy can read."""

from collections.abc import Mapping

from policyc.ir.services import Kind, Service
from policyc.ir.universe import End, Endpoint, Flow, Node, end_name

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has; its value is the name, which is shown anyway."""


def flow_json(flow: Flow) -> dict[str, object]:
    """A flow with both of its ends, so that it can be evaluated again."""
    shown: dict[str, object] = {
        "src": end_json(flow.src),
        "dst": end_json(flow.dst),
        **service_json(flow.service),
        "family": flow.family,
    }
    if flow.source_port is not None:
        shown["source_port"] = flow.source_port
    return shown


def service_json(service: Service) -> dict[str, object]:
    """The protocol by name if it has one, and its port, or type and code."""
    match service.kind:
        case Kind.OTHER:
            return {"protocol": str(service.number)}
        case Kind.ICMP | Kind.ICMPV6:
            value = {"icmp_type": service.value >> 8, "icmp_code": service.value & 0xFF}
            return {"protocol": service.kind.name, **value}
        case _:
            return {"protocol": service.kind.name, "port": service.value}


def end_json(end: End) -> dict[str, object]:
    """An end: a pod, a node or an address."""
    match end:
        case Endpoint():
            return {"kind": "pod", **_pod_json(end)}
        case Node():
            return {
                "kind": "node",
                "name": end.name,
                "labels": dict(sorted(end.labels.items())),
                "addresses": [str(address) for address in end.addresses],
                "speaks": end.speaks,
            }
        case _:
            return {"kind": "address", "address": str(end)}


def _pod_json(pod: Endpoint) -> dict[str, object]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "labels": dict(sorted(pod.labels.items())),
        "namespace_labels": dict(sorted(pod.namespace_labels.items())),
        "ports": [
            {"name": port.name, "protocol": port.protocol, "number": port.number}
            for port in pod.ports
        ],
        "addresses": [str(address) for address in pod.addresses],
        "service_account": pod.service_account,
        "node": pod.node,
        "host_network": pod.host_network,
        "template": pod.is_template,
    }


def flow_words(flow: Flow) -> str:
    """A flow in one line, with the addresses it uses."""
    from_port = "" if flow.source_port is None else f" from port {flow.source_port}"
    src, dst = (_end_words(end, flow.family) for end in (flow.src, flow.dst))
    return f"{src} -> {dst}, {flow.service}{from_port} (IPv{flow.family})"


def _end_words(end: End, family: int) -> str:
    match end:
        case Endpoint() | Node():
            address = end.address(family)
            return end_name(end) if address is None else f"{end_name(end)} ({address})"
        case _:
            return str(end)


def end_details(end: End) -> list[str]:
    """What policies read of an end beside its name and address, in words; nothing for an address."""
    match end:
        case Endpoint():
            return _pod_details(end)
        case Node():
            return _labels("labels", end.labels)
        case _:
            return []


def _pod_details(pod: Endpoint) -> list[str]:
    spaces = {key: value for key, value in pod.namespace_labels.items() if key != NAME_LABEL}
    shown = _labels("labels", pod.labels) + _labels("namespace labels", spaces)
    if pod.ports:
        ports = (f"{port.name or '-'} {port.protocol} {port.number}" for port in pod.ports)
        shown.append(f"ports {', '.join(ports)}")
    if pod.service_account not in ("", "default"):
        shown.append(f"service account {pod.service_account}")
    if pod.node:
        shown.append(f"on node {pod.node}")
    if pod.host_network:
        shown.append("in its node's network")
    return shown


def _labels(what: str, labels: Mapping[str, str]) -> list[str]:
    pairs = " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return [f"{what} {pairs}"] if pairs else []
