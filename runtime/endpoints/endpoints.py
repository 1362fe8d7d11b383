# SPDX-License-Identifier: Apache-2.0
"""The endpoints file: the pods, and the device of each local pod.

`read_endpoints` takes the file and gives checked records, or an `InputError` that names the JSON path,
the value found and the value expected.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from policyc.runtime.bundle.address_value import (
    Address,
    host_address,
)
from policyc.runtime.bundle.json_value import (
    JsonValue,
    read_json,
)

SCHEMA = "policyc.dev/endpoints/v1"
ZONE_LABEL = "topology.kubernetes.io/zone"

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_INTERFACE = re.compile(r"[^\s/:]{1,15}")  # the names that the kernel accepts for devices
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_REQUIRED = ("namespace", "name", "addresses")
_OPTIONAL = (
    "labels",
    "namespaceLabels",
    "ports",
    "interface",
    "mac",
    "serviceAccount",
    "serviceAccountLabels",
    "node",
    "hostNetwork",
    "bypass",
    "netns",
)


@dataclass(frozen=True, slots=True)
class ContainerPort:
    """A port that a container of the pod declares; `name` is empty for an unnamed one."""

    name: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """A pod, with all attributes that a policy can match.

    `addresses` is keyed by family, 4 or 6. `interface` (the host's side) and `mac` (the pod's own) are
    None for pods of other nodes and for pods in the host's network. A pod on an ipvlan slave has `slave`
    instead of a host's side, and NETNS:DEVICE as `interface`.
    """

    namespace: str
    name: str
    labels: dict[str, str]
    namespace_labels: dict[str, str]
    ports: tuple[ContainerPort, ...]
    addresses: dict[int, Address]
    service_account: str
    node: str
    host_network: bool
    interface: str | None
    mac: str | None
    service_account_labels: dict[str, str] = field(default_factory=dict)
    node_labels: dict[str, str] = field(default_factory=dict)
    may_bypass: bool = True
    """Whether its TCP data may bypass the stack (`node load --bypass`)."""
    slave: tuple[Path, str] | None = None
    """The file of the pod's network namespace, and the name of the device in it."""

    @property
    def is_local(self) -> bool:
        """Whether it is a pod of this node, with a device of its own."""
        return self.interface is not None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the cluster, with the attributes that policies on nodes can match."""

    name: str
    labels: dict[str, str]
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class EndpointsFile:
    """The file's node, every pod that it lists, and the cluster's nodes."""

    node: str
    endpoints: tuple[EndpointRecord, ...]
    nodes: tuple[NodeRecord, ...] = ()

    @property
    def own_addresses(self) -> tuple[Address, ...]:
        """The addresses of the file's node, if it is among the nodes."""
        return self.own_node.addresses

    @property
    def pods(self) -> frozenset[Address]:
        """The addresses of pods, except those in their node's network."""
        return frozenset(
            address
            for each in self.endpoints
            if not each.host_network
            for address in each.addresses.values()
        )

    @property
    def own_zone(self) -> str:
        """The node's zone; empty if unknown."""
        return self.own_node.labels.get(ZONE_LABEL, "")

    @property
    def own_node(self) -> NodeRecord:
        """The file's node; only its name if it is not among the nodes."""
        unknown = NodeRecord(self.node, {}, ())
        return next((each for each in self.nodes if each.name == self.node), unknown)


def read_endpoints(path: Path) -> EndpointsFile:
    """Read and check an endpoints file."""
    root = read_json(path).fields(required=("schema", "node", "endpoints"), optional=("nodes",))
    if root["schema"].text() != SCHEMA:
        root["schema"].fail(f"expected {SCHEMA!r}, found {root['schema'].raw!r}")
    node = root["node"].text()
    nodes = tuple(_nodes(root["nodes"])) if "nodes" in root else ()
    labels = {each.name: each.labels for each in nodes}
    places = list(root["endpoints"].items())
    records = tuple(_endpoint(place, node, labels) for place in places)
    _reject_shared(places, records)
    _reject_pods_at_nodes(places, records, nodes)
    return EndpointsFile(node, records, nodes)


def _nodes(value: JsonValue) -> Iterator[NodeRecord]:
    """Read the nodes; a name and an address belong to one node only."""
    names: dict[str, JsonValue] = {}
    holders: dict[Address, JsonValue] = {}
    for place in value.items():
        fields = place.fields(required=("name", "addresses"), optional=("labels",))
        name = fields["name"].text()
        if name in names:
            place.fail(f"the node {name} is also {names[name].path}")
        names[name] = place
        addresses = tuple(_address(item) for item in fields["addresses"].items())
        for address in addresses:
            if address in holders:
                place.fail(f"the address {address} is also that of {holders[address].path}")
            holders[address] = place
        labels = fields["labels"].strings() if "labels" in fields else {}
        yield NodeRecord(name, labels, addresses)


def _endpoint(
    place: JsonValue, this_node: str, labels_of: Mapping[str, dict[str, str]]
) -> EndpointRecord:
    fields = place.fields(_REQUIRED, _OPTIONAL)
    interface = _interface(fields["interface"]) if "interface" in fields else None
    slave = _slave(place, fields["netns"], interface) if "netns" in fields else None
    if slave:
        interface = f"{slave[0]}:{slave[1]}"
    default_node = this_node if interface else ""
    record = EndpointRecord(
        namespace=fields["namespace"].text(),
        name=fields["name"].text(),
        labels=fields["labels"].strings() if "labels" in fields else {},
        namespace_labels=fields["namespaceLabels"].strings() if "namespaceLabels" in fields else {},
        ports=tuple(map(_port, fields["ports"].items())) if "ports" in fields else (),
        addresses=_addresses(fields["addresses"]),
        service_account=fields["serviceAccount"].text()
        if "serviceAccount" in fields
        else "default",
        node=fields["node"].text() if "node" in fields else default_node,
        host_network=fields["hostNetwork"].flag() if "hostNetwork" in fields else False,
        interface=interface,
        mac=_mac(fields["mac"]) if "mac" in fields else None,
        service_account_labels=fields["serviceAccountLabels"].strings()
        if "serviceAccountLabels" in fields
        else {},
        may_bypass=fields["bypass"].flag() if "bypass" in fields else True,
        slave=slave,
    )
    record = replace(record, node_labels=labels_of.get(record.node, {}))
    _check_place(place, record, this_node)
    return record


def _check_place(place: JsonValue, record: EndpointRecord, this_node: str) -> None:
    """Check that a pod of this node has a device and a MAC, and that no other pod has either."""
    if record.host_network:
        if record.interface or record.mac:
            place.fail("a pod with hostNetwork has no `interface` and no `mac` of its own")
        return
    if record.interface and record.node != this_node:
        place.fail(
            f"has an `interface`, but is a pod of node {record.node!r} and not of {this_node!r}"
        )
    if record.node == this_node and not record.interface:
        place.fail(f"a pod of this node ({this_node!r}) needs `interface` and `mac`")
    if record.interface and not record.mac:
        place.fail("has an `interface`, so it also needs the pod's `mac`")
    if record.mac and not record.interface:
        place.fail("has a `mac`, so it also needs the `interface` that leads to it")


def _interface(value: JsonValue) -> str:
    name = value.text()
    if not _INTERFACE.fullmatch(name) or name in (".", ".."):
        value.fail(f"expected the name of a network device (at most 15 characters), found {name!r}")
    return name


def _slave(place: JsonValue, netns: JsonValue, interface: str | None) -> tuple[Path, str]:
    path = Path(netns.text())
    if not path.is_absolute():
        netns.fail(f"expected the absolute path of a network namespace, found {netns.raw!r}")
    if interface is None:
        place.fail("has a `netns`, so it also needs the `interface` in that network namespace")
    return path, interface


def _mac(value: JsonValue) -> str:
    mac = value.text().lower()
    if not _MAC.fullmatch(mac):
        value.fail(f"expected a MAC address as 02:00:00:00:00:05, found {value.raw!r}")
    if int(mac[:2], 16) & 1:
        value.fail(f"expected the MAC address of one device, found {value.raw!r}")
    return mac


def _port(value: JsonValue) -> ContainerPort:
    fields = value.fields(required=("port",), optional=("name", "protocol"))
    protocol = fields["protocol"].text() if "protocol" in fields else "TCP"
    if protocol not in _PROTOCOLS:
        fields["protocol"].fail(f"expected one of {', '.join(_PROTOCOLS)}, found {protocol!r}")
    name = fields["name"].text(may_be_empty=True) if "name" in fields else ""
    return ContainerPort(name, protocol, fields["port"].number(1, 65535))


def _addresses(value: JsonValue) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for item in value.items():
        address = _address(item)
        if address.version in found:
            item.fail(f"a second IPv{address.version} address; at most one a family")
        found[address.version] = address
    if not found:
        value.fail("expected at least one address", "leave out pods without an address")
    return found


def _address(value: JsonValue) -> Address:
    return host_address(value, " and cannot be a pod's address")


def _reject_pods_at_nodes(
    places: list[JsonValue], records: tuple[EndpointRecord, ...], nodes: tuple[NodeRecord, ...]
) -> None:
    """Reject an address of both a pod and a node; pods in the host's network have their node's."""
    held = {address: node.name for node in nodes for address in node.addresses}
    for place, record in zip(places, records, strict=True):
        for address in () if record.host_network else record.addresses.values():
            if address in held:
                place.fail(f"the address {address} is also that of the node {held[address]}")


def _reject_shared(places: list[JsonValue], records: tuple[EndpointRecord, ...]) -> None:
    """Reject two pods with the same identity. Pods in the host's network share its address."""
    own = [(p, r) for p, r in zip(places, records, strict=True) if not r.host_network]
    questions: list[tuple[str, Callable[[EndpointRecord], list[object]]]] = [
        ("address", lambda record: list(record.addresses.values())),
        ("interface", lambda record: [record.interface] if record.interface else []),
        ("name", lambda record: [str(record)]),
    ]
    for what, values_of in questions:
        first: dict[object, JsonValue] = {}
        for place, record in own:
            for value in values_of(record):
                if value in first:
                    place.fail(f"the {what} {value} is also that of {first[value].path}")
                first[value] = place
