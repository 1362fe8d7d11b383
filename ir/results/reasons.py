# SPDX-License-Identifier: Apache-2.0
"""Reasons why a part of a rule does not match a flow: the smallest facts, each true alone. Data only.

`end` is how messages name an end. Each reason says in `words` what the rule requires and what the flow
has.
"""

from dataclasses import dataclass

from policyc.ir.describe import (
    describe_condition,
    describe_peer,
    describe_ports,
    describe_requirement,
)
from policyc.ir.intervals import IntervalSet
from policyc.ir.peers import AddressPeer, Network, Peer, Where
from policyc.ir.policy import IcmpType, Ports
from policyc.ir.selectors import Attribute, Condition, Requirement
from policyc.ir.services import Protocol, Service
from policyc.ir.universe import Address


@dataclass(frozen=True, slots=True)
class RequirementFails:
    """A requirement on an attribute of an end fails; `has` is the end's value (None: nothing)."""

    end: str
    attribute: Attribute
    requirement: Requirement
    has: str | None

    @property
    def words(self) -> str:
        """`shop/web has the label app=db, not app=web`."""
        asked = describe_requirement(self.requirement)
        what, key = self.attribute.value, self.requirement.key
        if not key:
            return f"{self.end}: {what}{asked} is required, found {self.has or 'none'}"
        has = f"has {key}={self.has or repr('')}" if self.has is not None else f"has no {key}"
        return f"{self.end}: {what} {asked} is required, but it {has}"


@dataclass(frozen=True, slots=True)
class OtherNamespace:
    """The selector selects pods of another namespace."""

    end: str
    wanted: str
    has: str

    @property
    def words(self) -> str:
        """Both namespaces, in words."""
        return f"{self.end} is in namespace {self.has}, not {self.wanted}"


@dataclass(frozen=True, slots=True)
class ConditionFails:
    """No alternative of a condition holds, or what it excludes holds."""

    end: str
    condition: Condition

    @property
    def words(self) -> str:
        """The whole condition."""
        return f"{self.end}: {describe_condition(self.condition)} does not hold"


@dataclass(frozen=True, slots=True)
class NotAPod:
    """Selectors select pods, and never an address that no pod holds (A12), nor a node (A21)."""

    end: str

    @property
    def words(self) -> str:
        """What the end is not, in words."""
        return f"{self.end} is not a pod, and selectors select only pods (A12, A21)"


@dataclass(frozen=True, slots=True)
class NotANode:
    """The peer is a set of nodes, and the end is not a node."""

    end: str

    @property
    def words(self) -> str:
        """What the end is not, in words."""
        return f"{self.end} is not a node"


@dataclass(frozen=True, slots=True)
class WrongNode:
    """The rule requires a remote node and the node is the subject's own, or the other way round."""

    end: str
    where: Where

    @property
    def words(self) -> str:
        """The node that is required, in words."""
        own = "not the subject's own" if self.where is Where.LOCAL else "the subject's own"
        return f"{self.end} is {own}, but the rule requires {self.where.value} nodes"


@dataclass(frozen=True, slots=True)
class NoAddress:
    """The end has no address of the flow's family, or none that is known."""

    end: str
    block: AddressPeer

    @property
    def words(self) -> str:
        """The address that a block needs, in words."""
        return f"{self.end} has no known address that could be in {self.block.network}"


@dataclass(frozen=True, slots=True)
class OutsideBlock:
    """The address is not inside the network; addresses of the other family never are (A14)."""

    address: Address
    network: Network

    @property
    def words(self) -> str:
        """The address and the network."""
        family = "" if self.address.version == self.network.version else ", of the other family"
        return f"{self.address} is not in {self.network}{family}"


@dataclass(frozen=True, slots=True)
class InsideExcept:
    """The address is inside the network, and in one of its excepts (A14)."""

    address: Address
    network: Network
    hole: Network

    @property
    def words(self) -> str:
        """The address and the except."""
        return f"{self.address} is in {self.network}, but in its except {self.hole}"


@dataclass(frozen=True, slots=True)
class Excluded:
    """The end is one that the peer excludes."""

    end: str
    peer: Peer

    @property
    def words(self) -> str:
        """The excluded part, in words."""
        return f"{self.end} is {describe_peer(self.peer)}, which is excluded"


@dataclass(frozen=True, slots=True)
class NoAlternative:
    """There is no alternative at all: no peer, no port."""

    what: str

    @property
    def words(self) -> str:
        """The missing part, in words."""
        return f"the rule has no {self.what} that anything could match"


@dataclass(frozen=True, slots=True)
class OtherProtocol:
    """The entry is of another protocol."""

    service: Service
    ports: Ports

    @property
    def words(self) -> str:
        """The service and the entry."""
        return f"{self.service} is of another protocol than {describe_ports(self.ports)}"


@dataclass(frozen=True, slots=True)
class OutsidePorts:
    """The destination port is not in the entry's range, lo..hi."""

    port: int
    lo: int
    hi: int

    @property
    def words(self) -> str:
        """The port and the range."""
        wanted = str(self.lo) if self.lo == self.hi else f"{self.lo}-{self.hi}"
        verb = "is not" if self.lo == self.hi else "is not in"
        return f"port {self.port} {verb} {wanted}"


@dataclass(frozen=True, slots=True)
class OtherIcmp:
    """The ICMP type or code is another one."""

    service: Service
    wanted: IcmpType

    @property
    def words(self) -> str:
        """The service and the entry."""
        return f"{self.service} is not {describe_ports(self.wanted)}"


@dataclass(frozen=True, slots=True)
class NotDeclared:
    """The destination declares the name, if at all, for other numbers (`has`, sorted) (A19)."""

    end: str
    name: str
    protocol: Protocol
    port: int
    has: tuple[int, ...]
    is_pod: bool = True

    @property
    def words(self) -> str:
        """The destination's declarations, in words."""
        if not self.is_pod:
            return f"{self.end} is not a pod, so it declares no port {self.name!r} (A19)"
        if not self.has:
            return f"{self.end} declares no {self.protocol.name} port {self.name!r} (A19)"
        numbers = ", ".join(map(str, self.has))
        return f"port {self.name!r} of {self.end} is {numbers}, not {self.port} (A19)"


@dataclass(frozen=True, slots=True)
class ExceptedPort:
    """The service is one that the rule excludes."""

    service: Service
    ports: Ports

    @property
    def words(self) -> str:
        """The service and the entry."""
        return f"{self.service} is excluded by {describe_ports(self.ports)}"


@dataclass(frozen=True, slots=True)
class OutsideSourcePorts:
    """The source port is not among the rule's source ports, or not known (None)."""

    port: int | None
    wanted: IntervalSet

    @property
    def words(self) -> str:
        """The source port and the required ones, in words."""
        spans = (str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in self.wanted)
        has = "is not known" if self.port is None else f"{self.port} is not among them"
        return f"source ports {', '.join(spans) or 'none'} are required, the flow's {has}"


Reason = (
    RequirementFails
    | OtherNamespace
    | ConditionFails
    | NotAPod
    | NotANode
    | WrongNode
    | NoAddress
    | OutsideBlock
    | InsideExcept
    | Excluded
    | NoAlternative
    | OtherProtocol
    | OutsidePorts
    | OtherIcmp
    | NotDeclared
    | ExceptedPort
    | OutsideSourcePorts
)
