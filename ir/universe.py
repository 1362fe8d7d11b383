# SPDX-License-Identifier: Apache-2.0
"""What exists beside the policies: endpoints, and the flows between endpoints and addresses."""

from collections.abc import Mapping
from dataclasses import field
from ipaddress import IPv4Address, IPv6Address

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.services import Protocol, Service
from policyc.ir.spans import NOWHERE, Span

Address = IPv4Address | IPv6Address
FAMILIES = (4, 6)


@dataclass(frozen=True, slots=True, order=True)
class ContainerPort:
    """A port that an endpoint declares under a name."""

    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class HostInterface:
    """The host interface of a node as a subject: its labels, and its default for unmatched traffic.

    `denies_unmatched`: traffic that no policy decides is denied, as on a HostEndpoint (D43); else it is
    allowed, as on a node under Cilium's policies. `has_failsafes`: policy does not apply to the failsafe
    ports.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    denies_unmatched: bool = False
    has_failsafes: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the cluster. `speaks` False: of a flow, only that it has the node's address is known.

    Only traffic that a node generates passes to the node's own pods; the node's source address alone is
    not enough (A22).
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    addresses: tuple[Address, ...] = ()
    host: HostInterface | None = None
    speaks: bool = True

    def address(self, family: int) -> Address | None:
        """The node's first address of family 4 or 6, None if it has none."""
        return next((a for a in self.addresses if a.version == family), None)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A pod, or a pod template, with the attributes that policies read.

    `namespace_labels` include `kubernetes.io/metadata.name`. At most one address a family.
    `addresses_known` False: it has addresses, but they are not known (a template's replica). `its_node`
    is the node named `node`, if more than its name is known.
    """

    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    namespace_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    ports: tuple[ContainerPort, ...] = ()
    addresses: tuple[Address, ...] = ()
    service_account: str = "default"
    service_account_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    node: str = ""
    its_node: Node | None = None
    host_network: bool = False
    is_template: bool = False
    addresses_known: bool = True
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def qualified_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def address(self, family: int) -> Address | None:
        """The endpoint's address of family 4 or 6, None if it has none."""
        return next((a for a in self.addresses if a.version == family), None)

    def named_ports(self, name: str, protocol: Protocol) -> frozenset[int]:
        """Every number the endpoint declares under (name, protocol); sidecars count (A19)."""
        return frozenset(
            p.number for p in self.ports if p.name == name and p.protocol == protocol.name
        )


@dataclass(frozen=True, slots=True)
class Universe:
    """The endpoints of a cluster, sorted by qualified name, and its nodes, sorted by name."""

    endpoints: tuple[Endpoint, ...] = ()
    nodes: tuple[Node, ...] = ()


Subject = Endpoint | Node
"""An end that policies can select."""
End = Subject | IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Flow:
    """The first packet of a connection: source, destination and service. `family` is 4 or 6.

    `source_port` None: there is none, or it is not known; it is then in no set of source ports.
    """

    src: End
    dst: End
    service: Service
    family: int
    source_port: int | None = None

    def __str__(self) -> str:
        return f"{end_name(self.src)} -> {end_name(self.dst)} {self.service} (IPv{self.family})"


def end_name(end: End) -> str:
    """The name of an end in messages."""
    match end:
        case Endpoint():
            return end.qualified_name
        case Node():
            node = f"node {end.name}" if end.name else "a node"
            return node if end.speaks else f"the address of {node}"
        case _:
            return str(end)


def end_address(end: End, family: int) -> Address | None:
    """The address that an end uses in a flow of this family; None if it has none, or none known."""
    if isinstance(end, Subject):
        return end.address(family)
    return end if end.version == family else None
