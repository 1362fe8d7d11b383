# SPDX-License-Identifier: Apache-2.0
"""pc_quota_full (datapath/quota.h): how often an endpoint's quota was full."""

import sys
from collections.abc import Iterator

from policyc.runtime.maps.pinned_map import PinnedMap


class QuotaFull(PinnedMap):
    """A count per endpoint's device and enum pc_quota."""

    NAME = "pc_quota_full"

    def counts(self) -> Iterator[tuple[int, int, int]]:
        """Device, enum pc_quota, count."""
        for key, value in self.items():
            count = int.from_bytes(value, sys.byteorder)
            yield self.key.number(key, "device"), self.key.number(key, "what"), count

    def devices(self) -> Iterator[tuple[bytes, int]]:
        """Each key, and its device."""
        for key in self.all_keys():
            yield key, self.key.number(key, "device")
