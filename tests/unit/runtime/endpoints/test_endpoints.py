# SPDX-License-Identifier: Apache-2.0
"""Every bad field of an endpoints file is named by its JSON path, with what was expected."""

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.endpoints.endpoints import (
    ContainerPort,
    read_endpoints,
)
from policyc.runtime.errors import InputError

WEB: dict[str, Any] = {
    "namespace": "shop",
    "name": "web-0",
    "labels": {"app": "web", "empty": ""},
    "namespaceLabels": {"kubernetes.io/metadata.name": "shop"},
    "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    "addresses": ["10.244.1.5", "fd00:10:244:1::5"],
    "interface": "veth1a2b",
    "mac": "02:00:00:00:00:05",
    "serviceAccount": "default",
    "node": "node-1",
    "hostNetwork": False,
}
REMOTE: dict[str, Any] = {
    "namespace": "shop", "name": "db-0", "addresses": ["10.244.2.7"], "node": "node-2",
}  # fmt: skip


def _file(tmp_path: Path, *endpoints: object, **fields: object) -> Path:
    path = tmp_path / "endpoints.json"
    value = {"schema": "policyc.dev/endpoints/v1", "node": "node-1", "endpoints": list(endpoints)}
    path.write_text(json.dumps({**value, **fields}))
    return path


def _without(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in names}


def test_a_valid_endpoints_file_is_read(tmp_path: Path) -> None:
    file = read_endpoints(_file(tmp_path, WEB, REMOTE))
    web, db = file.endpoints
    assert file.node == "node-1"
    assert web.addresses == {4: IPv4Address("10.244.1.5"), 6: IPv6Address("fd00:10:244:1::5")}
    assert web.ports == (ContainerPort("http", "TCP", 8080),)
    assert web.labels == {"app": "web", "empty": ""}
    assert (web.is_local, db.is_local) == (True, False)
    assert (db.labels, db.service_account, db.host_network) == ({}, "default", False)
    assert str(web) == "shop/web-0"


def test_with_a_netns_the_interface_is_a_device_in_it(tmp_path: Path) -> None:
    entry = {**WEB, "netns": "/run/netns/a", "interface": "eth0"}
    (web,) = read_endpoints(_file(tmp_path, entry)).endpoints
    assert web.slave == (Path("/run/netns/a"), "eth0")
    assert web.interface == "/run/netns/a:eth0" and web.is_local


def test_pods_may_have_devices_of_one_name_in_their_own_namespaces(tmp_path: Path) -> None:
    first = {**WEB, "netns": "/run/netns/a", "interface": "eth0"}
    other = {**first, "name": "web-1", "addresses": ["10.244.1.6"], "netns": "/run/netns/b"}
    assert len(read_endpoints(_file(tmp_path, first, other)).endpoints) == 2
    with pytest.raises(InputError, match="the interface /run/netns/a:eth0 is also that of"):
        read_endpoints(_file(tmp_path, first, {**other, "netns": "/run/netns/a"}))


def test_a_port_with_an_empty_name_is_unnamed(tmp_path: Path) -> None:
    named = {**WEB, "ports": [{"name": "", "port": 80}, {"port": 81, "name": "x"}, {"port": 82}]}
    (web,) = read_endpoints(_file(tmp_path, named)).endpoints
    assert [each.name for each in web.ports] == ["", "x", ""]


def test_pods_in_the_hosts_network_share_their_nodes_address(tmp_path: Path) -> None:
    host = {**REMOTE, "hostNetwork": True}
    assert len(read_endpoints(_file(tmp_path, host, {**host, "name": "db-1"})).endpoints) == 2


NODE = {"name": "node-2", "labels": {"zone": "a"}, "addresses": ["192.0.2.1", "fd00::1"]}


def test_nodes_are_read_and_their_pods_get_their_labels(tmp_path: Path) -> None:
    pod = {**REMOTE, "serviceAccountLabels": {"team": "db"}}
    file = read_endpoints(_file(tmp_path, WEB, pod, nodes=[NODE]))
    (node,) = file.nodes
    assert (node.name, node.labels) == ("node-2", {"zone": "a"})
    assert node.addresses == (IPv4Address("192.0.2.1"), IPv6Address("fd00::1"))
    web, db = file.endpoints
    assert (web.node_labels, db.node_labels) == ({}, {"zone": "a"})
    assert db.service_account_labels == {"team": "db"}


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"name": "n"}], "$.nodes[0]: the field `addresses` is missing"),
        ([NODE, NODE], "$.nodes[1]: the node node-2 is also $.nodes[0]"),
        ([NODE, {**NODE, "name": "n"}], "the address 192.0.2.1 is also that of $.nodes[0]"),
        ([{**NODE, "addresses": ["x"]}], "$.nodes[0].addresses[0]: expected an IPv4 or IPv6"),
        ([{**NODE, "label": {}}], "$.nodes[0].label: unknown field"),
        (
            [{**NODE, "addresses": REMOTE["addresses"]}],
            "$.endpoints[0]: the address 10.244.2.7 is also that of the node node-2",
        ),
    ],
    ids=["no address", "name twice", "address twice", "no address", "misspelt", "a pod's"],
)
def test_bad_nodes(tmp_path: Path, nodes: list[object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_endpoints(_file(tmp_path, REMOTE, nodes=nodes))
    assert message in str(caught.value)


BAD = [
    ("an unknown field", {**WEB, "adresses": []}, "$.endpoints[0].adresses: unknown field"),
    ("no name", _without(WEB, "name"), "$.endpoints[0]: the field `name` is missing"),
    ("an empty name", {**WEB, "name": ""}, "$.endpoints[0].name: expected a string"),
    ("no address", {**WEB, "addresses": []}, "$.endpoints[0].addresses: expected at least one"),
    ("a name for an address", {**WEB, "addresses": ["web"]}, "[0]: expected an IPv4 or IPv6"),
    ("a prefix for an address", {**WEB, "addresses": ["10.0.0.0/8"]}, "addresses[0]: expected an"),
    ("two of one family", {**WEB, "addresses": ["10.0.0.1", "10.0.0.2"]}, "addresses[1]: a second IPv4"),
    ("a zone", {**WEB, "addresses": ["fd00::1%eth0"]}, "addresses[0]: expected a plain IPv6"),
    ("an address in disguise", {**WEB, "addresses": ["::ffff:10.0.0.1"]}, "expected a plain IPv6"),
    ("loopback", {**WEB, "addresses": ["127.0.0.1"]}, "127.0.0.1 is loopback"),
    ("multicast", {**WEB, "addresses": ["ff02::1"]}, "ff02::1 is multicast"),
    ("link-local", {**WEB, "addresses": ["fe80::1"]}, "fe80::1 is link-local"),
    ("nothing", {**WEB, "addresses": ["0.0.0.0"]}, "0.0.0.0 is unspecified"),
    ("an address that is a number", {**WEB, "addresses": [7]}, "[0]: expected a string, found 7"),
    ("labels that are a list", {**WEB, "labels": []}, "labels: expected an object, found an array"),
    ("a label that is a number", {**WEB, "labels": {"a": 1}}, "labels.a: expected a string, found 1"),
    ("a port of 0", {**WEB, "ports": [{"port": 0}]}, "port: expected a number from 1 to"),
    ("a port that is true", {**WEB, "ports": [{"port": True}]}, "expected a whole number, found true"),
    ("a protocol in lower case", {**WEB, "ports": [{"port": 1, "protocol": "tcp"}]}, "found 'tcp'"),
    ("a port without one", {**WEB, "ports": [{"name": "x"}]}, "ports[0]: the field `port` is missing"),
    ("a MAC with dashes", {**WEB, "mac": "02-00-00-00-00-05"}, "mac: expected a MAC address"),
    ("a MAC of many", {**WEB, "mac": "03:00:00:00:00:05"}, "mac: expected the MAC address of one"),
    ("a long interface", {**WEB, "interface": "x" * 16}, "interface: expected the name of a network"),
    ("an interface that is a path", {**WEB, "interface": "a/b"}, "interface: expected the name"),
    ("no interface", _without(WEB, "interface", "mac"), "a pod of this node ('node-1') needs"),
    ("no MAC", _without(WEB, "mac"), "so it also needs the pod's `mac`"),
    ("no interface for the MAC", {**REMOTE, "mac": WEB["mac"]}, "so it also needs the `interface`"),
    ("an interface elsewhere", {**WEB, "node": "node-2"}, "is a pod of node 'node-2'"),
    ("a device in the host's network", {**WEB, "hostNetwork": True}, "has no `interface`"),
    ("a relative netns", {**WEB, "netns": "netns/a"}, "netns: expected the absolute path of a"),
    ("a netns without a device", {**REMOTE, "netns": "/run/netns/a"}, "it also needs the `interface`"),
    ("hostNetwork as text", {**WEB, "hostNetwork": "no"}, "expected true or false, found \"no\""),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "message"), [c[1:] for c in BAD], ids=[c[0] for c in BAD])
def test_an_endpoint_is_refused_with(tmp_path: Path, entry: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_endpoints(_file(tmp_path, entry))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "endpoints.json") + ": $.endpoints[0]")
    assert caught.value.exit_code == 2


def test_a_misspelt_field_names_the_nearest_field(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_endpoints(_file(tmp_path, {**WEB, "adresses": []}))
    assert caught.value.hint == "did you mean `addresses`?"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"addresses": WEB["addresses"]}, "the address 10.244.1.5 is also that of $.endpoints[0]"),
        ({"interface": "veth1a2b"}, "the interface veth1a2b is also that of $.endpoints[0]"),
        ({"name": "web-0"}, "the name shop/web-0 is also that of $.endpoints[0]"),
    ],
    ids=["address", "interface", "name"],
)
def test_two_endpoints_are_refused_with_the_same(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    other = {**WEB, "name": "web-1", "addresses": ["10.244.1.6"], "interface": "veth2"}
    with pytest.raises(InputError) as caught:
        read_endpoints(_file(tmp_path, WEB, {**other, **change}))
    assert f"$.endpoints[1]: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", ":1:2: not JSON"),
        ('{"a": 1, "a": 2}', "the field `a` is given twice"),
        ("[]", "$: expected an object, found an array"),
        ('{"schema": "v0", "node": "n", "endpoints": []}', "$.schema: expected 'policyc.dev/endp"),
        ('{"node": "n", "endpoints": []}', "$: the field `schema` is missing"),
        ("\x80", "is not UTF-8"),
    ],
)
def test_an_invalid_endpoints_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "endpoints.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_endpoints(path)
    assert message in str(caught.value)


def test_a_missing_endpoints_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_endpoints(tmp_path / "endpoints.json")
