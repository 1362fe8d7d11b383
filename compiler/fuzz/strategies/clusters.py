# SPDX-License-Identifier: Apache-2.0
"""Random clusters: namespaces, nodes, service accounts, pods of one or both families."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.draw import Object
from policyc.compiler.fuzz.strategies.words import (
    ACCOUNTS,
    NAMESPACES,
    NODES,
    NUMBERS,
    PORT_NAMES,
    PROTOCOLS,
    Strategy,
    Value,
    fields,
    labels,
    lists,
    namespaces,
)

MOST_PODS = 5
_TEAM = {"a": "x", "b": "z"}


def _port(name: str, protocol: str, number: int) -> Value:
    return {"name": name, "protocol": protocol, "containerPort": number}


_ports = lists(
    st.builds(
        _port, st.sampled_from(PORT_NAMES), st.sampled_from(PROTOCOLS), st.sampled_from(NUMBERS)
    ),
    3,
)
_pods = lists(
    fields(
        {
            "namespace": namespaces,
            "labels": labels,
            "ports": _ports,
            "node": st.sampled_from(("n1", "n2", "n1", "n2", "", "elsewhere")),
            "families": st.sampled_from(((4, 6), (4,), (6,))),
            "account": st.sampled_from(ACCOUNTS),
            "is_host": st.sampled_from((False, False, False, False, True)),
        }
    ),
    MOST_PODS,
    2,
)


def _cluster(pods: list[Value], zones: list[str], account: Value) -> tuple[Object, ...]:
    found: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": _TEAM[name]} if name in _TEAM else {}},
        }
        for name in NAMESPACES
    ]
    found += [_node(number, zone) for number, zone in enumerate(zones, start=1)]
    found += [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "robot", "namespace": name, "labels": account},
        }
        for name in NAMESPACES
    ]
    found += [_pod(number, pod) for number, pod in enumerate(pods)]
    return tuple(found)


def _node(number: int, zone: str) -> Object:
    ips = (f"10.8.0.{number}", f"fd00:8::{number}")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}", "labels": {"zone": zone}},
        "status": {"addresses": [{"type": "InternalIP", "address": ip} for ip in ips]},
    }


def _pod(number: int, pod: Value) -> Object:
    spec: Value = {
        "serviceAccountName": pod["account"],
        "containers": [{"name": "c", "ports": pod["ports"]}],
    }
    if pod["node"]:
        spec["nodeName"] = pod["node"]
    ips = [
        f"10.0.0.{number + 2}" if family == 4 else f"fd00::{number + 2}"
        for family in pod["families"]
    ]
    if pod["is_host"] and pod["node"] in NODES:
        spec["hostNetwork"] = True
        at = NODES.index(pod["node"]) + 1
        ips = [f"10.8.0.{at}" if family == 4 else f"fd00:8::{at}" for family in pod["families"]]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": pod["namespace"], "labels": pod["labels"]},
        "spec": spec,
        "status": {"phase": "Running", "podIPs": [{"ip": ip} for ip in ips]},
    }


clusters: Strategy = st.builds(_cluster, _pods, lists(st.sampled_from(("1", "2")), 2, 2), labels)
"""Tuples of objects. Pods are p0, p1, ... of their namespaces; nodes n1 and n2."""
