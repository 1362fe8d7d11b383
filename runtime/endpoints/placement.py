# SPDX-License-Identifier: Apache-2.0
"""The interface to the classifier, which places an endpoint in the policy's tables.

`policyc.runtime.policy.tables.PolicyTables` implements it; the loader sees only this interface.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    NodeRecord,
)

Placement = dict[str, int]
"""Field of the endpoint's class (its row as subject, its columns as peer) -> id; 0 fails closed."""


@dataclass(frozen=True, slots=True)
class MapWrite:
    """One value of a generation's array, as 32-bit words; written before the switch."""

    map_name: str
    index: int
    words: tuple[int, ...]


class Placer(Protocol):
    """Places endpoints, also of classes that the compiler has not seen."""

    @property
    def class_fields(self) -> tuple[str, ...]:
        """The fields of a class, in the order of its words; none if the program decides nothing."""
        ...

    @property
    def reads_nodes(self) -> bool:
        """Whether the policies distinguish a node from an address."""
        ...

    def place(self, endpoint: EndpointRecord) -> Placement:
        """The endpoint's row and columns; a new class takes reserved ids."""
        ...

    def place_node(self, node: NodeRecord, address: Address, is_local: bool) -> Placement | None:
        """A node as peer under one address; None if no rule distinguishes it from its address."""
        ...

    def place_host(self, subject: EndpointRecord, node: NodeRecord, address: Address) -> Placement:
        """The own node under one address: as subject that endpoint, as peer the node."""
        ...

    def place_own_node(self, node: NodeRecord) -> Placement:
        """The own node as peer, under any address that it sends from."""
        ...

    def drain_writes(self) -> list[MapWrite]:
        """The map writes that the placements since the last call need."""
        ...

    def new_rules(self) -> list[dict[str, Any]]:
        """Entries like those of rules.json, for rules that were made on this node."""
        ...

    @property
    def n_unnoted(self) -> int:
        """How many decisions lost their notes (log, audit) because no rule ids were left."""
        ...

    def refused(self) -> tuple[str, ...]:
        """Endpoints (`namespace/name`) whose placement found no room: they are denied what they lack."""
        ...
