# SPDX-License-Identifier: Apache-2.0
"""From the records of the endpoints file to endpoints with ids, devices and places.

A node is an endpoint under each of its addresses, where rules can tell it from an address.

An id stays with (namespace, name, addresses) from one load to the next; addresses count for as long
as there are ids. The id of a pod that went
is not given away in the same load: the generation before still has its class under it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.endpoints.placement import (
    Placement,
    Placer,
)
from policyc.runtime.errors import InputError
from policyc.runtime.policy.host_policy import HostSubject
from policyc.runtime.state import LoadedEndpoint

Identity = tuple[str, str, tuple[str, ...]]
LOOPBACK = 1
"""Where the hooks find this node under whatever address: PC_HOST_DEVICE of datapath/host_end.h."""


def identity(record: EndpointRecord) -> Identity:
    """What makes it the same endpoint in the next load."""
    return record.namespace, record.name, tuple(str(a) for _, a in sorted(record.addresses.items()))


def node_identity(node: NodeRecord, addresses: tuple[Address, ...]) -> Identity:
    """The same for a node under some addresses; no pod is without a namespace."""
    return "", node.name, tuple(map(str, addresses))


@dataclass(frozen=True, slots=True)
class Roster:
    """The pods that policy knows as pods, not those in the host's network (semantics A21); the nodes."""

    records: tuple[EndpointRecord, ...]
    devices: Mapping[str, int]
    nodes: tuple[NodeRecord, ...] = ()
    this_node: str = ""
    fast_path_devices: frozenset[int] = frozenset()  # ifindexes
    host: HostSubject | None = None  # this node, if it is under host policy
    netns: Mapping[int, int] = field(default_factory=dict)  # ifindex -> id of its other side's
    own_node: NodeRecord | None = None  # this node, where policies deny what it sends to its pods

    def pods(self) -> list[EndpointRecord]:
        """The records that become endpoints."""
        return [record for record in self.records if not record.host_network]

    def identities(self) -> Iterator[Identity]:
        """Of every pod, and of every node under each address."""
        yield from map(identity, self.pods())
        yield from (node_identity(node, (address,)) for node, address in self._peers())
        if self.host is not None:
            yield from (node_identity(self.host.node, group) for group in self.host.groups)
        if self.own_node is not None:
            yield node_identity(self.own_node, ())

    def place(self, placer: Placer, ids: Mapping[Identity, int]) -> Iterator[LoadedEndpoint]:
        """Every pod and node with its id, its device and its row and columns."""
        yield from self._place_pods(placer, ids)
        for node, address in self._peers():
            place = placer.place_node(node, address, node.name == self.this_node)
            if place is not None:
                yield _node(node, (address,), ids[node_identity(node, (address,))], place)
        if self.host is not None:
            yield from self._place_host(self.host, placer, ids)
        if self.own_node is not None:
            ident = ids[node_identity(self.own_node, ())]
            found = _node(self.own_node, (), ident, placer.place_own_node(self.own_node))
            yield replace(found, ifindex=LOOPBACK)

    def _peers(self) -> Iterator[tuple[NodeRecord, Address]]:
        """Nodes that are only peers, under each address: not this one, if it is under host policy."""
        for node in self.nodes:
            if self.host is None or node.name != self.host.node.name:
                yield from ((node, address) for address in node.addresses)

    def _place_host(
        self, host: HostSubject, placer: Placer, ids: Mapping[Identity, int]
    ) -> Iterator[LoadedEndpoint]:
        for group in host.groups:
            place = placer.place_host(host.record(group[0]), host.node, group[0])
            found = _node(host.node, group, ids[node_identity(host.node, group)], place)
            yield replace(found, is_host=True)

    def _place_pods(self, placer: Placer, ids: Mapping[Identity, int]) -> Iterator[LoadedEndpoint]:
        for record in self.pods():
            place = placer.place(record)
            namespace, name, addresses = identity(record)
            ifindex = self.devices.get(record.interface or "", 0)
            yield LoadedEndpoint(
                id=ids[namespace, name, addresses],
                namespace=namespace,
                name=name,
                addresses=addresses,
                interface=record.interface or "",
                ifindex=ifindex,
                mac=record.mac or "",
                place=place,
                has_peer=ifindex in self.fast_path_devices,
                netns=self.netns.get(ifindex),
                may_bypass=record.may_bypass,
            )


def _node(
    node: NodeRecord, addresses: tuple[Address, ...], ident: int, place: Placement
) -> LoadedEndpoint:
    return LoadedEndpoint(
        id=ident,
        namespace="",
        name=node.name,
        addresses=tuple(map(str, addresses)),
        interface="",
        ifindex=0,
        mac="",
        place=place,
        is_node=True,
    )


def assign_ids(
    roster: Roster, before: tuple[LoadedEndpoint, ...], in_use: set[int], capacity: int
) -> dict[Identity, int]:
    """An id below `capacity` for every pod; 0 means "no pod" and is never given.

    `in_use` are the ids that the kernel's maps hold, should the record of `before` be lost. When no id
    is free, a pod whose addresses changed goes on under its own.
    """
    known = {endpoint.identity: endpoint.id for endpoint in before}
    by_name = {(endpoint.namespace, endpoint.name): endpoint.id for endpoint in before}
    taken = in_use | set(known.values())
    free = (ident for ident in range(1, capacity) if ident not in taken)
    ids: dict[Identity, int] = {}
    for who in roster.identities():
        ident = known.get(who, 0)
        if not 0 < ident < capacity:
            ident = next(free, 0) or by_name.get(who[:2], 0)
        if not 0 < ident < capacity:
            name = f"{who[0]}/{who[1]}" if who[0] else f"node {who[1]}"
            raise InputError(
                f"the bundle's endpoint limit of {capacity - 1} is exceeded at {name}",
                "compile it for more endpoints; the next load frees the ids of removed pods",
            )
        ids[who] = ident
    return ids
