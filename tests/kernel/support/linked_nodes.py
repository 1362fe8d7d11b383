# SPDX-License-Identifier: Apache-2.0
"""The two nodes of two_nodes.py on one link: nodes reach each other without a router.

OwnLink    beside the routes to the router, the nodes have a link of their own
SameLink   the router's side is a bridge: nodes and router are on one link
"""

from contextlib import ExitStack
from pathlib import Path

from policyc.runtime.devices.uplinks import Outside
from tests.kernel.support.two_nodes import (
    NODES,
    UPLINK,
    Namespace,
    TwoNodes,
    address,
    forward_packets,
    gateway_of,
    prefixes,
)

LINK = "link0"
BRIDGE = "br0"


class OwnLink(TwoNodes):
    """Clients reach a node by another device than the other node does."""

    uplinks = (UPLINK, LINK)
    link = LINK
    """The device by which a node reaches the other."""
    outside: Outside = "dsr-l2"
    """With this option packets go by the link."""

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        super().__init__(folder, owned)
        one, other = (self.at[node] for node in NODES)
        one.network.add_veth(LINK, LINK, other.fd)
        for node in NODES:
            own = (f"{address(node, 4)}/32", f"{address(node, 6)}/128")
            self.at[node].set_up(LINK, *own)  # IPv6 answers for addresses of the device alone
        self._reach_directly()

    def _reach_directly(self) -> None:
        for node, other in (NODES, NODES[::-1]):
            for family, size in ((4, 32), (6, 128)):
                prefix = f"{address(other, family)}/{size}"
                self.at[node].network.route(prefix, device=self.link)


class SameLink(OwnLink):
    """One device leads to clients and to the other node."""

    uplinks = (UPLINK,)
    link = UPLINK
    outside: Outside = "dsr"

    def __init__(self, folder: Path, owned: ExitStack) -> None:
        TwoNodes.__init__(self, folder, owned)
        self._reach_directly()

    def _join(self, site: str) -> None:
        if site not in NODES:
            super()._join(site)
            return
        own, router = self.at[site], self.at["router"]
        own.within(forward_packets)
        if site == NODES[0]:
            router.network.add(BRIDGE, "bridge")
        own.network.add_veth(UPLINK, f"to-{site}", router.fd)
        router.network.change(f"to-{site}", master=router.network.index(BRIDGE))
        router.set_up(f"to-{site}")
        _add(router, *prefixes(gateway_of(site, 4), gateway_of(site, 6)))
        own.set_up(UPLINK, *prefixes(address(site, 4), address(site, 6)))
        for family in (4, 6):
            own.network.default_route(gateway_of(site, family))


def _add(router: Namespace, *own: str) -> None:
    router.set_up(BRIDGE, *own)
