# SPDX-License-Identifier: Apache-2.0
"""The node itself as a subject: what a bundle's hosts.json says of it, and its addresses.

The compiler lowers host policy to policy on an endpoint in the namespace without a name
(`compiler/driver/compile/host_subjects.py`). This module makes that endpoint, once for each address of
the node.
"""

import ipaddress
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from policyc.runtime import failsafes
from policyc.runtime.bundle.address_value import (
    Address,
    host_address,
)
from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.bundle.json_value import (
    JsonValue,
    read_json,
)
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    EndpointsFile,
    NodeRecord,
)
from policyc.runtime.errors import InputError
from policyc.runtime.failsafes import DEFAULT, Failsafes, Side
from policyc.runtime.kernel import rtnetlink
from policyc.runtime.state import Warn

HOSTS_FILE = "hosts.json"
SCHEMA = "policyc.dev/hosts/v1"
EVERY_INTERFACE = "*"
_NO_FAILSAFES = Failsafes()


@dataclass(frozen=True, slots=True)
class HostSubject:
    """The node under host policy. `groups` are its addresses; each group is one endpoint.

    `interface` is the device that a HostEndpoint names; empty or `*`: no particular one. If it is empty,
    the device is one that has an address among `expected`.
    """

    name: str
    node: NodeRecord
    labels: dict[str, str]
    interface: str
    has_failsafes: bool
    expected: tuple[Address, ...] = ()
    groups: tuple[tuple[Address, ...], ...] = ()

    def record(self, address: Address) -> EndpointRecord:
        """The endpoint for which the node is a subject under one of its addresses."""
        return EndpointRecord(
            namespace="",
            name=self.name,
            labels=self.labels,
            namespace_labels={},
            ports=(),
            addresses={address.version: address},
            service_account="",
            node=self.node.name,
            host_network=False,
            interface=None,
            mac=None,
            node_labels=self.node.labels,
        )

    @property
    def failsafes(self) -> Failsafes:
        """The ports that stay open by default: Felix's, for nodes under Calico policies."""
        return DEFAULT if self.has_failsafes else _NO_FAILSAFES


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """The node as a subject, and the ports that no policy closes."""

    host: HostSubject
    failsafes: Failsafes


def of_node(
    bundle: Bundle,
    file: EndpointsFile,
    uplink: Sequence[str],
    open_ports: Mapping[Side, str],
    note: Warn,
) -> HostPolicy | None:
    """The node if the bundle has host policy for it, and its open ports.

    Raises `InputError` if the policy cannot be enforced.
    """
    given = {side: failsafes.read_ports(text, side) for side, text in open_ports.items()}
    found = host_subject(bundle, file)
    if found is None:
        for side in given:
            note(f"--failsafe-{side} has no effect: this node is not under host policy")
        return None
    require_uplinks(found, uplink)
    return HostPolicy(found, replace(found.failsafes, **given))


def host_subject(bundle: Bundle, file: EndpointsFile) -> HostSubject | None:
    """The file's node, if the bundle has host policy for it; addresses are added later."""
    if HOSTS_FILE not in bundle.digests:
        return None
    root = read_json(bundle.path / HOSTS_FILE).fields(
        required=("schema", "every_node", "interfaces"), optional=()
    )
    if root["schema"].text() != SCHEMA:
        root["schema"].fail(f"expected {SCHEMA!r}, found {root['schema'].raw!r}")
    node = next((n for n in file.nodes if n.name == file.node), NodeRecord(file.node, {}, ()))
    for item in root["interfaces"].items():
        host = _interface(item, node)
        if host is not None:
            return host
    if root["every_node"].flag():
        if node not in file.nodes:
            raise InputError(
                f"the bundle may have host policy for this node ({node.name}), but the endpoints "
                f"file has no labels of it",
                "list the node under `nodes`, with its labels and addresses",
            )
        return HostSubject(node.name, node, {}, "", has_failsafes=False)
    return None


def _interface(item: JsonValue, node: NodeRecord) -> HostSubject | None:
    required = ("name", "node", "interface", "labels", "addresses", "failsafes")
    fields = item.fields(required, ())
    if fields["node"].text() != node.name:
        return None
    return HostSubject(
        name=fields["name"].text(),
        node=node,
        labels=fields["labels"].strings(),
        interface="" if fields["interface"].raw == "" else fields["interface"].text(),
        has_failsafes=fields["failsafes"].flag(),
        expected=tuple(
            host_address(each, " and cannot be what a HostEndpoint expects")
            for each in fields["addresses"].items()
        ),
    )


def require_uplinks(host: HostSubject, uplinks: Collection[str]) -> None:
    """Raise `InputError` if no hook enforces the host policy: hooks at the node's uplinks enforce it."""
    if not uplinks:
        raise InputError(
            f"the bundle has host policy for this node ({host.node.name}), but without an uplink "
            f"nothing enforces it",
            "name the devices that connect the node to its network: --uplink DEVICE",
        )
    if host.interface not in ("", EVERY_INTERFACE, *uplinks):
        raise InputError(
            f"the bundle has host policy for {host.interface} of this node ({host.name}), which is "
            f"not among the uplinks ({', '.join(sorted(uplinks))})",
            f"add it: --uplink {host.interface}",
        )
    if host.interface or not host.expected:
        return
    if not set(host.expected) & set(_device_addresses(uplinks)):
        raise InputError(
            f"the bundle has host policy for the device of this node with "
            f"{', '.join(map(str, host.expected))} ({host.name}), but no uplink has that address "
            f"({', '.join(sorted(uplinks))})",
            "add that device: --uplink DEVICE",
        )


def with_addresses(host: HostSubject, file: EndpointsFile) -> HostSubject:
    """The host under every address that it has: from the file, and from its devices.

    A pod in the host's network has the node's address; the address is still the node's.
    """
    records = (record for record in file.endpoints if not record.host_network)
    pods = {address for record in records for address in record.addresses.values()}
    here = own_addresses(pods - set(host.node.addresses))
    addresses = tuple(dict.fromkeys((*host.node.addresses, *here)))
    return replace(host, groups=tuple(groups_of(addresses)))


def own_addresses(pods: Collection[Address]) -> tuple[Address, ...]:
    """Every address of the node's devices, except those of loopback and of `pods`; sorted."""
    kept = (each for each in set(_device_addresses()) if not each.is_loopback and each not in pods)
    return tuple(sorted(kept, key=lambda each: (each.version, int(each))))


def _device_addresses(names: Collection[str] = ()) -> list[Address]:
    """The addresses of the devices of these names that exist, or of all devices."""
    wanted = {index for index, name in socket.if_nameindex() if not names or name in names}
    with rtnetlink.connection("host policy") as netlink:
        return [
            ipaddress.ip_address(value)
            for entry in rtnetlink.dump(netlink.get_addr)
            if entry["index"] in wanted
            if (value := entry.get_attr("IFA_LOCAL") or entry.get_attr("IFA_ADDRESS"))
        ]


def groups_of(addresses: Collection[Address]) -> Iterator[tuple[Address, ...]]:
    """Each address by itself; link-local ones are together, as every pod's device has one."""
    of_links = tuple(each for each in addresses if each.version == 6 and each.is_link_local)
    yield from ((each,) for each in addresses if each not in of_links)
    if of_links:
        yield of_links
