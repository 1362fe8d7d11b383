# SPDX-License-Identifier: Apache-2.0
"""pc_ranges (datapath/source_range.h): the client ranges of load balancer addresses."""

from policyc.runtime.bundle.address_value import Network, packed
from policyc.runtime.maps.pinned_map import PinnedMap

_BUFFER = 1 << 31


class SourceRanges(PinnedMap):
    """Ranges by list; both buffers of the tables of Services."""

    NAME = "pc_ranges"

    @property
    def most(self) -> int:
        """Ranges per buffer."""
        return self.max_entries // 2

    def key_of(self, buffer: int, number: int, network: Network) -> bytes:
        """A range of the list with that number."""
        return self.key.pack(
            length=32 + network.prefixlen,
            list=number | _BUFFER * buffer,
            addr=packed(network.network_address),
        )

    def buffer_of(self, key: bytes) -> int:
        """The buffer that a key belongs to."""
        return int(self.key.number(key, "list") >= _BUFFER)
