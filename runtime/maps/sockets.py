# SPDX-License-Identifier: Apache-2.0
"""Maps of the hooks at sockets (datapath/socket_client.h, socket_peers.h)."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policyc.runtime.bundle.address_value import Address, packed
from policyc.runtime.maps.pinned_map import PinnedMap, SingleEntry
from policyc.runtime.undo import Undo

_NO_ADDRESS = bytes(16)
PEERS = "pc_socket_peers"
"""The map of endpoints of unconnected sockets."""


class SocketHost(SingleEntry):
    """pc_socket_host: the network namespace whose processes reach Services at connect()."""

    NAME = "pc_socket_host"

    def set_host(self, cookie: int, addresses: Iterable[Address], undo: Undo) -> None:
        """The namespace's cookie, and the node's addresses: the first of each family counts."""
        self.set(self.value_of(cookie, addresses), undo)

    def value_of(self, cookie: int, addresses: Iterable[Address]) -> bytes:
        """The value for a namespace."""
        return self.value.pack(cookie=cookie, **_by_family(addresses))


class SocketPods(PinnedMap):
    """pc_socket_pods: the cookie of a pod's network namespace -> the pod's addresses."""

    NAME = "pc_socket_pods"

    def add(self, pods: Mapping[int, Iterable[Address]], undo: Undo) -> None:
        """Pods by cookie; those that are there stay."""
        for cookie, addresses in pods.items():
            self.replace(self.number_key(cookie), self.value_of(addresses), undo)

    def value_of(self, addresses: Iterable[Address]) -> bytes:
        """The value for a pod."""
        return self.value.pack(**_by_family(addresses))

    @staticmethod
    def number_of(key: bytes) -> int:
        """The inverse of `number_key`."""
        return int.from_bytes(key, sys.byteorder)

    def keep_only(self, cookies: Iterable[int]) -> None:
        """Remove all other pods."""
        for key in set(self.all_keys()) - set(map(self.number_key, cookies)):
            self.delete(key)


@dataclass(frozen=True, slots=True)
class ConnectedSocket:
    """A socket that is connected to an endpoint of a Service."""

    network: int
    """The cookie of its network namespace."""
    cookie: int
    protocol: int
    """The IP protocol."""


class SocketServices(PinnedMap):
    """pc_socket_conns: sockets that are connected to an endpoint, each with the address it used."""

    NAME = "pc_socket_conns"

    def read(self, data: bytes) -> list[ConnectedSocket]:
        """The sockets of a listing: it has values of this map."""
        number, size = self.value.number, self.info.value_size
        entries = (data[at : at + size] for at in range(0, len(data), size))
        return [
            ConnectedSocket(number(entry, "netns"), number(entry, "socket"), number(entry, "proto"))
            for entry in entries
        ]


def _by_family(addresses: Iterable[Address]) -> dict[str, bytes]:
    first = {address.version: packed(address) for address in reversed(list(addresses))}
    return {"addr4": first.get(4, _NO_ADDRESS), "addr6": first.get(6, _NO_ADDRESS)}
