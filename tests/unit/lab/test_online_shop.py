# SPDX-License-Identifier: Apache-2.0
"""The example is as rich as it says, and its objects agree with each other.

Counted in the plain YAML, with no part of the compiler.
"""

import functools
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.runtime.lab.topology import EXTERNAL, NODE_IPV4, NODE_IPV6

SHOP = Path(__file__).resolve().parents[3] / "examples" / "online-shop"

Object = dict[str, Any]


@functools.cache
def objects(folder: str) -> tuple[Object, ...]:
    files = sorted((SHOP / folder).glob("*.yaml"))
    return tuple(doc for file in files for doc in yaml.load_all(file.read_text(), yaml.CSafeLoader))


def of_kind(kind: str) -> list[Object]:
    return [doc for doc in objects("cluster") if doc["kind"] == kind]


def key(thing: Object) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def walk(value: object) -> Iterator[tuple[str, object]]:
    """Every key with its value, at any depth."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name, inner
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def containers(pod_spec: Object) -> list[Object]:
    """The containers that run at the same time: containers and restartable init containers."""
    return [*pod_spec["containers"], *pod_spec.get("initContainers", [])]


def ports(pod_spec: Object) -> set[tuple[str, str, int]]:
    return {
        (port["name"], port["protocol"], port["containerPort"])
        for container in containers(pod_spec)
        for port in container["ports"]
    }


def policy_values(name: str) -> list[object]:
    return [value for policy in objects("policies") for key, value in walk(policy) if key == name]


def test_the_cluster_is_of_the_size_that_the_readme_says() -> None:
    assert len(of_kind("Namespace")) == 4
    assert len(of_kind("Deployment")) == 14
    assert len(of_kind("Pod")) == 15
    assert len(of_kind("Node")) == 1
    assert len(objects("policies")) == 26
    assert {policy["kind"] for policy in objects("policies")} == {"NetworkPolicy"}
    assert {d["metadata"]["namespace"] for d in of_kind("EndpointSlice")} == {"shop", "kube-system"}


def test_names_are_unique_and_namespaces_exist() -> None:
    spaces = {space["metadata"]["name"] for space in of_kind("Namespace")}
    for kind in ("Deployment", "Pod", "Service", "EndpointSlice"):
        keys = [key(thing) for thing in of_kind(kind)]
        assert len(keys) == len(set(keys))
        assert {name.split("/")[0] for name in keys} <= spaces
    keys = [key(policy) for policy in objects("policies")]
    assert len(keys) == len(set(keys))
    assert {name.split("/")[0] for name in keys} == spaces


@pytest.mark.parametrize("deployment", of_kind("Deployment"), ids=key)
def test_every_deployment_has_its_pods(deployment: Object) -> None:
    template = deployment["spec"]["template"]
    space, name = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= template["metadata"]["labels"].items()
    pods = [
        pod
        for pod in of_kind("Pod")
        if pod["metadata"]["namespace"] == space
        and pod["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0] == name
    ]
    assert len(pods) == deployment["spec"]["replicas"]
    for pod in pods:
        labels = pod["metadata"]["labels"]
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        assert owner == f"{name}-{labels['pod-template-hash']}"
        assert pod["metadata"]["name"].startswith(f"{owner}-")
        assert labels == template["metadata"]["labels"] | {
            "pod-template-hash": labels["pod-template-hash"]
        }
        assert ports(pod["spec"]) == ports(template["spec"])
        assert pod["spec"]["serviceAccountName"] == template["spec"]["serviceAccountName"]


def test_pods_have_an_address_of_each_family_from_the_node() -> None:
    (node,) = of_kind("Node")
    ranges = [ip_network(cidr) for cidr in node["spec"]["podCIDRs"]]
    seen = set()
    for pod in of_kind("Pod"):
        addresses = [ip_address(entry["ip"]) for entry in pod["status"]["podIPs"]]
        assert [address.version for address in addresses] == [4, 6]
        assert all(address in cidr for address, cidr in zip(addresses, ranges, strict=True))
        assert pod["status"]["podIP"] == str(addresses[0])
        assert pod["spec"]["nodeName"] == node["metadata"]["name"]
        seen.update(addresses)
    assert len(seen) == 2 * len(of_kind("Pod"))


def test_the_node_and_the_external_host_are_those_of_the_lab() -> None:
    (node,) = of_kind("Node")
    addresses = {entry["address"] for entry in node["status"]["addresses"]}
    assert {str(NODE_IPV4), str(NODE_IPV6)} <= addresses
    readme = (SHOP / "README.md").read_text()
    assert f"| {EXTERNAL.ipv4} | {EXTERNAL.ipv6} |" in readme


def test_services_find_pods_and_their_ports() -> None:
    for service in of_kind("Service"):
        selector = service["spec"]["selector"].items()
        pods = [
            pod
            for pod in of_kind("Pod")
            if pod["metadata"]["namespace"] == service["metadata"]["namespace"]
            and selector <= pod["metadata"]["labels"].items()
        ]
        assert pods, key(service)
        for port in service["spec"]["ports"]:
            for pod in pods:
                names = {(name, protocol) for name, protocol, _ in ports(pod["spec"])}
                assert (port["targetPort"], port["protocol"]) in names
    assert {"LoadBalancer", "NodePort", "ClusterIP"} == {
        service["spec"]["type"] for service in of_kind("Service")
    }


def test_endpoint_slices_name_live_pods() -> None:
    held = {key(pod): {entry["ip"] for entry in pod["status"]["podIPs"]} for pod in of_kind("Pod")}
    for endpoint_slice in of_kind("EndpointSlice"):
        for endpoint in endpoint_slice["endpoints"]:
            target = f"{endpoint['targetRef']['namespace']}/{endpoint['targetRef']['name']}"
            assert set(endpoint["addresses"]) <= held[target]


def test_excepts_are_strict_subsets_in_canonical_form() -> None:
    blocks: list[Any] = policy_values("ipBlock")
    for block in blocks:
        whole: Any = ip_network(block["cidr"])
        assert str(whole) == block["cidr"]
        for text in block.get("except", []):
            part = ip_network(text)
            assert str(part) == text
            assert part != whole
            assert part.subnet_of(whole)
    several = {ip_network(b["cidr"]).version for b in blocks if len(b.get("except", [])) > 1}
    assert several == {4, 6}


def test_the_policies_use_the_corners_of_the_api() -> None:
    assert set(policy_values("operator")) == {"In", "NotIn", "Exists", "DoesNotExist"}
    peers: list[Any] = [
        peer
        for name in ("from", "to")
        for peers in policy_values(name)
        for peer in peers  # type: ignore[attr-defined]
    ]
    shapes = {frozenset(peer) for peer in peers}
    assert shapes == {
        frozenset({"podSelector"}),
        frozenset({"namespaceSelector"}),
        frozenset({"namespaceSelector", "podSelector"}),
        frozenset({"ipBlock"}),
    }
    assert {"podSelector": {}} in peers
    assert {"namespaceSelector": {}} in peers
    rule_ports: list[Any] = [port for ports in policy_values("ports") for port in ports]  # type: ignore[attr-defined]
    assert any("endPort" in port for port in rule_ports)
    assert any("protocol" not in port for port in rule_ports)
    assert {port.get("protocol") for port in rule_ports if port["port"] == 53} == {"TCP", "UDP"}
    assert {} in [rule for rules in policy_values("ingress") for rule in rules]  # type: ignore[attr-defined]


def test_policy_types_are_given_and_left_to_the_default() -> None:
    specs = [policy["spec"] for policy in objects("policies")]
    given = {tuple(spec["policyTypes"]) for spec in specs if "policyTypes" in spec}
    assert given == {("Ingress",), ("Egress",), ("Ingress", "Egress")}
    left_out = {("ingress" in s, "egress" in s) for s in specs if "policyTypes" not in s}
    assert left_out == {(True, False), (False, True), (True, True), (False, False)}


@pytest.mark.parametrize(
    ("selector", "name", "numbers"),
    [
        ({"app": "catalog"}, "http", {8080, 9080}),
        ({}, "metrics", {9102, 9153, 9187}),
    ],
    ids=["http", "metrics"],
)
def test_a_named_port_has_several_numbers(
    selector: dict[str, str], name: str, numbers: set[int]
) -> None:
    found = {
        number
        for pod in of_kind("Pod")
        if selector.items() <= pod["metadata"]["labels"].items()
        for port_name, _, number in ports(pod["spec"])
        if port_name == name
    }
    assert found == numbers
    used: list[Any] = [port for ports in policy_values("ports") for port in ports]  # type: ignore[attr-defined]
    assert name in {port["port"] for port in used}


def test_every_policy_has_a_comment_above_it() -> None:
    for file in sorted((SHOP / "policies").glob("*.yaml")):
        for document in file.read_text().split("\n---\n"):
            lines = [line for line in document.splitlines() if "SPDX" not in line]
            assert lines[0].startswith("# "), f"{file.name}: {lines[0]}"
