# SPDX-License-Identifier: Apache-2.0
"""Cluster objects become the universe: endpoints and nodes with labels, ports and addresses."""

from typing import Any

import pytest

from policyc.compiler.frontend import (
    Cluster,
    ObjectsSource,
    read_cluster,
    read_policies,
    read_scenario,
)
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.policy import PolicySet
from policyc.ir.universe import ContainerPort, Endpoint

NAME_LABEL = "kubernetes.io/metadata.name"


def read(*objects: object, given: PolicySet | None = None) -> Cluster:
    return read_cluster([ObjectsSource("test", objects)], given=given or PolicySet(()))


def errors(*objects: object) -> list[Diagnostic]:
    with pytest.raises(InputError) as wrong:
        read(*objects)
    return [finding for finding in wrong.value.findings if finding.is_error]


def thing(kind: str, version: str = "v1", name: str = "web", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def pod(name: str = "web", **rest: Any) -> dict[str, Any]:
    return thing("Pod", name=name, **rest)


def endpoint(*objects: object) -> Endpoint:
    (only,) = read(*objects).universe.endpoints
    return only


def test_a_pod_is_read() -> None:
    found = endpoint(
        pod(
            metadata={"labels": {"app": "web"}, "surprise": 1},
            spec={
                "containers": [
                    {"name": "c", "ports": [{"name": "http", "containerPort": 80}], "new": {}},
                    {"name": "d", "ports": [{"containerPort": 81}]},
                ],
                "initContainers": [
                    {"name": "i", "ports": [{"name": "no", "containerPort": 1}]},
                    {
                        "name": "s",
                        "restartPolicy": "Always",
                        "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}],
                    },
                ],
                "nodeName": "n1",
                "serviceAccountName": "robot",
            },
            status={"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        )
    )
    assert found.qualified_name == "shop/web"
    assert found.labels == {"app": "web"}
    assert found.namespace_labels == {NAME_LABEL: "shop"}
    assert found.ports == (ContainerPort("dns", "UDP", 53), ContainerPort("http", "TCP", 80))
    assert [str(address) for address in found.addresses] == ["10.0.0.1", "fd00::1"]
    assert (found.service_account, found.node) == ("robot", "n1")
    assert found.addresses_known and not found.is_template and not found.host_network


def test_a_namespace_gives_its_labels_and_its_name() -> None:
    space = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"team": "blue"}},
    }
    assert endpoint(space, pod()).namespace_labels == {"team": "blue", NAME_LABEL: "shop"}


@pytest.mark.parametrize(
    ("status", "known", "count"),
    [
        (None, False, 0),
        ({}, False, 0),
        ({"phase": "Pending"}, True, 0),
        ({"podIP": ""}, True, 0),
        ({"podIP": "10.0.0.1"}, True, 1),
        ({"podIPs": [{"ip": "fd00::1"}]}, True, 1),
    ],
)
def test_an_address_is_known_once_there_is_a_status(
    status: dict[str, Any] | None, known: bool, count: int
) -> None:
    found = endpoint(pod() if status is None else pod(status=status))
    assert (found.addresses_known, len(found.addresses)) == (known, count)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminated_pod_is_no_endpoint(phase: str) -> None:
    assert read(pod(status={"phase": phase, "podIP": "10.0.0.1"})).universe.endpoints == ()


def test_a_pod_on_the_host_network_has_its_nodes_address() -> None:
    found = endpoint(pod(spec={"hostNetwork": True}, status={"hostIP": "192.0.2.1"}))
    assert found.host_network
    assert str(found.addresses[0]) == "192.0.2.1"


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 80}]}]},
}
WORKLOADS = [
    ("Deployment", "apps/v1", {"template": TEMPLATE}),
    ("ReplicaSet", "apps/v1", {"template": TEMPLATE}),
    ("StatefulSet", "apps/v1", {"template": TEMPLATE}),
    ("DaemonSet", "apps/v1", {"template": TEMPLATE}),
    ("Job", "batch/v1", {"template": TEMPLATE}),
    ("CronJob", "batch/v1", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
    ("ReplicationController", "v1", {"template": TEMPLATE}),
]


@pytest.mark.parametrize(("kind", "version", "spec"), WORKLOADS)
def test_a_template_is_an_endpoint_with_an_unknown_address(
    kind: str, version: str, spec: dict[str, Any]
) -> None:
    found = endpoint(thing(kind, version, spec=spec))
    assert found.qualified_name == "shop/web"
    assert found.labels == {"app": "web"}
    assert found.ports == (ContainerPort("http", "TCP", 80),)
    assert found.is_template and not found.addresses_known and found.addresses == ()


def test_a_template_is_listed_beside_its_live_pods() -> None:
    owner = {"kind": "Deployment", "name": "web"}
    replica_set = thing(
        "ReplicaSet",
        "apps/v1",
        name="web-1",
        metadata={"ownerReferences": [owner]},
        spec={"template": TEMPLATE},
    )
    deployment = thing("Deployment", "apps/v1", spec={"template": TEMPLATE})
    live = pod("web-1-x", status={"podIP": "10.0.0.1"})
    names = [e.name for e in read(deployment, replica_set, live).universe.endpoints]
    assert names == ["web", "web-1-x"]


def test_a_template_with_a_pods_name_is_named_with_its_kind() -> None:
    objects = [pod(), thing("Deployment", "apps/v1", spec={"template": TEMPLATE})]
    assert [e.name for e in read(*objects).universe.endpoints] == ["web", "web.deployment"]


def test_endpoints_are_sorted() -> None:
    names = [e.name for e in read(pod("c"), pod("a"), pod("b")).universe.endpoints]
    assert names == ["a", "b", "c"]


def test_services_slices_and_nodes_are_read() -> None:
    cluster = read(
        thing(
            "Service",
            spec={
                "clusterIPs": ["10.96.0.1", "fd01::1"],
                "ports": [{"port": 80, "targetPort": "http", "nodePort": 30080}, {"port": 53}],
                "selector": {"app": "web"},
            },
            status={"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}, {"hostname": "x"}]}},
        ),
        thing("Service", name="headless", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
        thing(
            "EndpointSlice",
            "discovery.k8s.io/v1",
            metadata={"labels": {"kubernetes.io/service-name": "web"}},
            addressType="IPv4",
            endpoints=[
                {"addresses": ["10.0.0.1"]},
                {"addresses": [], "conditions": {"ready": False}},
            ],
            ports=[{"name": "", "port": 80}, {"port": None}],
        ),
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]},
            "status": {
                "addresses": [
                    {"type": "InternalIP", "address": "192.0.2.1"},
                    {"type": "Hostname", "address": "n1"},
                ]
            },
        },
    )
    headless, web = cluster.services
    assert headless.cluster_ips == ()
    assert [str(ip) for ip in web.cluster_ips] == ["10.96.0.1", "fd01::1"]
    assert [port.target_port for port in web.ports] == ["http", 53]
    assert web.ports[0].node_port == 30080
    assert [str(ip) for ip in web.load_balancer_ips] == ["203.0.113.1"]
    (only,) = cluster.endpoint_slices
    assert only.service == "web"
    assert [e.is_ready for e in only.endpoints] == [True, False]
    assert [p.port for p in only.ports] == [80, None]
    (node,) = cluster.nodes
    assert [str(network) for network in node.pod_cidrs] == ["10.0.0.0/24", "fd00::/64"]
    assert {n.name: [str(a) for a in n.addresses] for n in cluster.universe.nodes} == {
        "n1": ["192.0.2.1"]
    }


BAD = [
    ("PC0606", pod("")),
    ("PC0201", pod(metadata={"labels": ["x"]})),
    ("PC0201", pod(metadata={"labels": {"a": True}})),
    ("PC0201", pod(spec={"hostNetwork": "yes"})),
    ("PC0201", pod(spec={"containers": [{"ports": [{"containerPort": "80"}]}]})),
    ("PC0603", pod(spec={"containers": [{"ports": [{"containerPort": 70000}]}]})),
    ("PC0604", pod(spec={"containers": [{"ports": [{"containerPort": 1, "protocol": "tcp"}]}]})),
    ("PC0601", pod(status={"podIP": "10.0.0"})),
    ("PC0601", thing("Service", spec={"clusterIPs": ["None", "x"]})),
    ("PC0602", thing("Node", spec={"podCIDRs": ["10.0.0.0"]})),
    ("PC0201", thing("Deployment", "apps/v1", spec={"template": []})),
]


@pytest.mark.parametrize(("code", "object_"), BAD)
def test_fields_that_are_read_are_validated(code: str, object_: dict[str, Any]) -> None:
    assert [finding.code for finding in errors(object_)] == [code]


def test_two_pods_with_one_address_are_an_error() -> None:
    status = {"podIP": "10.0.0.1"}
    (finding,) = errors(pod("a", status=status), pod("b", status=status))
    assert finding.message == "pod shop/b has the address 10.0.0.1 of pod shop/a"
    host = {"hostNetwork": True}
    read(pod("a", spec=host, status=status), pod("b", spec=host, status=status))


def test_two_pods_with_one_name_are_an_error() -> None:
    assert [finding.code for finding in errors(pod(), pod())] == ["PC0308"]


POLICY = thing("NetworkPolicy", "networking.k8s.io/v1", spec={})


def test_a_policy_in_the_cluster_must_be_given_as_a_policy_too() -> None:
    assert [finding.code for finding in errors(POLICY)] == ["PC0309"]
    given = read_policies([ObjectsSource("test", (POLICY,))])
    read(POLICY, given=given.policies)
    with pytest.raises(InputError):
        read({**POLICY, "spec": {"policyTypes": ["Egress"]}}, given=given.policies)


def test_cluster_objects_among_policies_are_counted() -> None:
    found = read_policies([ObjectsSource("test", (pod(), pod("b"), POLICY))])
    assert found.cluster_objects == {"Pod": 2}


def test_a_template_gets_a_name_that_no_pod_has() -> None:
    """Also where a pod has the name that the template would get instead."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop"},
            "status": {"podIP": f"10.0.0.{at}"},
        }
        for at, name in enumerate(("web", "web.deployment"), 1)
    ]
    _, cluster = read_scenario("s", [*pods, deployment])
    names = [endpoint.name for endpoint in cluster.universe.endpoints]
    assert sorted(names) == ["web", "web.deployment", "web.deployment.deployment"]
