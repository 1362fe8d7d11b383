# SPDX-License-Identifier: Apache-2.0
"""pc_failsafes (datapath/failsafe.h): ports of a node under host policy that no policy closes."""

from policyc.runtime.maps.pinned_map import PinnedMap

INBOUND, OUTBOUND = 0, 1
"""enum pc_failsafe_side."""


class FailsafePorts(PinnedMap):
    """The ports of the active generation and, during a load, those of the next one."""

    NAME = "pc_failsafes"

    @property
    def most(self) -> int:
        """The limit per direction: two directions of two generations share the map."""
        return self.max_entries // 4

    def key_of(self, epoch: int, protocol: int, port: int, side: int) -> bytes:
        """A port that stays open while the generation of that epoch is active."""
        return self.key.pack(epoch=epoch, proto=protocol, port=port, side=side)

    def epoch_of(self, key: bytes) -> int:
        """The epoch of the generation that a key belongs to."""
        return self.key.number(key, "epoch")
