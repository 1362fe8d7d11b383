# SPDX-License-Identifier: Apache-2.0
"""SNAT of pods (datapath/masq_map.h): its settings, and the networks without it."""

from collections.abc import Mapping

from policyc.runtime.bundle.address_value import Address, Network, packed
from policyc.runtime.kernel.btf import Btf
from policyc.runtime.maps.pinned_map import PinnedMap, SingleEntry


class SnatSettings(SingleEntry):
    """pc_masq: the ports, and the node's addresses at each uplink."""

    NAME = "pc_masq"

    def value_of(self, ports: range, at: Mapping[int, Mapping[int, Address]]) -> bytes:
        """`at` has ifindex of an uplink -> family -> the node's address there."""
        uplink = Btf.of_map(self.fd).struct("pc_masq_own")
        return self.value.pack(
            low=ports[0],
            high=ports[-1],
            at=[
                uplink.pack(
                    uplink=ifindex,
                    own4=packed(found[4]) if 4 in found else bytes(16),
                    own6=packed(found[6]) if 6 in found else bytes(16),
                )
                for ifindex, found in at.items()
            ],
        )


class SnatExceptions(PinnedMap):
    """pc_masq_not: the networks that pods reach under their own address."""

    NAME = "pc_masq_not"

    def key_of(self, network: Network) -> bytes:
        """A network."""
        return self.key.pack(
            length=32 + network.prefixlen,
            family=network.version,
            addr=packed(network.network_address),
        )
