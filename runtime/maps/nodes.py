# SPDX-License-Identifier: Apache-2.0
"""The cluster's nodes, and how packets of external clients go between them (datapath/external_map.h)."""

import sys
from collections.abc import Sequence

from policyc.runtime.bundle.address_value import Address, packed
from policyc.runtime.maps.pinned_map import PinnedMap, SingleEntry


class NodeNumbers(PinnedMap):
    """pc_node_nums: the number of each node's address; 0 for those of this node."""

    NAME = "pc_node_nums"

    def key_of(self, address: Address) -> bytes:
        """A node's address."""
        return self.key.pack(addr=packed(address), family=address.version)

    def numbers(self) -> dict[bytes, int]:
        """Key -> number, of all addresses."""
        return {key: int.from_bytes(value, sys.byteorder) for key, value in self.items()}

    def number_value(self, number: int) -> bytes:
        """The value for a number."""
        return number.to_bytes(self.info.value_size, sys.byteorder)


class Vteps(PinnedMap):
    """pc_vteps: by number, an address of another node, and its tunnel endpoint (VTEP)."""

    NAME = "pc_vteps"

    def value_of(self, address: Address, vtep: Address, number: int) -> bytes:
        """The value for a node's address: the node's VTEP, and the number of the VTEP's address."""
        return self.value.pack(
            addr=packed(address),
            vtep=packed(vtep),
            vtep_family=vtep.version,
            vtep_number=number,
        )

    @property
    def unused(self) -> bytes:
        """The value where no node has the number."""
        return bytes(self.info.value_size)


class ExternalSettings(SingleEntry):
    """pc_external: the uplinks, the tunnel device, and the default return path."""

    NAME = "pc_external"

    @property
    def most_uplinks(self) -> int:
        """How many uplinks a node may have."""
        return self.value.field("uplink").count

    def fast_path_uplinks(self) -> tuple[int, ...]:
        """The devices of the fast path, at the places that connections name; 0: a free place."""
        return self.value.numbers(self.entry, "fast_path_uplink")

    def value_of(
        self,
        tunnel: int,
        return_path: int,
        by_link: int,
        uplinks: Sequence[int],
        uplinks_own: Sequence[Address | None],
        fast_path: Sequence[int],
        own: Sequence[Address],
        marks: int,
        host_nat: bool,
    ) -> bytes:
        """The value for devices, addresses, routing marks and NAT of this node.

        `tunnel`, `uplinks` and `fast_path` are ifindexes. `uplinks_own` are the node's IPv4 addresses at
        the uplinks. `own` are addresses of this node: the first of each family is stored. `marks` has a
        bit for each mark bit that a routing rule reads.
        """
        first = {address.version: packed(address) for address in reversed(own)}
        return self.value.pack(
            tunnel=tunnel,
            return_path=return_path,
            by_link=by_link,
            uplink=uplinks,
            uplink_own4=[int(each) if each else 0 for each in uplinks_own],
            fast_path_uplink=fast_path,
            own4=first.get(4, bytes(16)),
            own6=first.get(6, bytes(16)),
            marks=marks,
            host_nat=host_nat,
        )
