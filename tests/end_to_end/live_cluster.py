# SPDX-License-Identifier: Apache-2.0
"""The objects of a small live cluster, as its API server prints them."""

from pathlib import Path
from typing import Any

from tests.fake_kubectl import FakeKubectl, Object

SECRET = "hunter2"
"""A text that is in everything that no snapshot may have."""
POLICY = "networking.k8s.io/v1"
ADMIN = "policy.networking.k8s.io/v1alpha1"


def metadata(name: str, namespace: str = "", **labels: str) -> Object:
    """Metadata with all that a live object has."""
    found: Object = {
        "name": name,
        "uid": f"{SECRET}-uid",
        "resourceVersion": SECRET,
        "creationTimestamp": SECRET,
        "labels": labels,
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET},
        "managedFields": [{"manager": SECRET}],
    }
    return found | ({"namespace": namespace} if namespace else {})


def pod(name: str, namespace: str, ip: str, **labels: str) -> Object:
    """A running pod with all that must not be written."""
    container = {
        "name": "main",
        "image": f"registry/{SECRET}:1",
        "args": [SECRET],
        "command": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "volumeMounts": [{"name": SECRET, "mountPath": f"/{SECRET}"}],
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{name}-rs", "uid": SECRET}
    return {
        "metadata": {**metadata(name, namespace, **labels), "ownerReferences": [owner]},
        "spec": {
            "nodeName": "n1",
            "serviceAccountName": "default",
            "containers": [container],
            "initContainers": [{**container, "name": "once"}],
            "volumes": [{"name": SECRET, "secret": {"secretName": SECRET}}],
            "imagePullSecrets": [{"name": SECRET}],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "hostIP": "192.0.2.1",
            "hostIPs": [{"ip": "192.0.2.1"}],
            "containerStatuses": [{"imageID": SECRET}],
        },
    }


def network_policy(name: str, **spec: Any) -> Object:
    """A NetworkPolicy of shop."""
    return {
        "apiVersion": POLICY,
        "kind": "NetworkPolicy",
        "metadata": metadata(name, "shop"),
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], **spec},
        "status": {"conditions": [SECRET]},
    }


FROM_FRONT = [{"from": [{"podSelector": {"matchLabels": {"app": "front"}}}]}]


def small_cluster(folder: Path) -> FakeKubectl:
    """Two namespaces, three pods, a node, and one policy that admits front to web."""
    fake = FakeKubectl(folder)
    fake.serve("namespaces.v1.", [{"metadata": metadata(n, team="1e3")} for n in ("shop", "dev")])
    addresses = [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": "Hostname", "address": SECRET},
    ]
    node = {
        "metadata": metadata("n1", zone="a"),
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": SECRET},
        "status": {"addresses": addresses, "images": [{"names": [SECRET]}]},
    }
    fake.serve("nodes.v1.", [node])
    fake.serve(
        "pods.v1.",
        [
            pod("web", "shop", "10.0.0.2", app="web"),
            pod("front", "shop", "10.0.0.3", app="front"),
            pod("tool", "dev", "10.0.0.4", app="tool"),
        ],
    )
    service = {
        "metadata": metadata("web", "shop"),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.0.9",
            "clusterIPs": ["10.96.0.9"],
            "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    }
    fake.serve("services.v1.", [service])
    account = {"metadata": metadata("default", "shop"), "secrets": [{"name": SECRET}]}
    fake.serve("serviceaccounts.v1.", [account])
    only_web = {"matchLabels": {"app": "web"}}
    fake.serve_policies(
        POLICY,
        "NetworkPolicy",
        "networkpolicies",
        [network_policy("web", podSelector=only_web, ingress=FROM_FRONT)],
    )
    fake.start()
    return fake
