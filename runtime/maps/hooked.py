# SPDX-License-Identifier: Apache-2.0
"""pc_hooked (datapath/prerouting.bpf.c): the devices with a pod's hooks."""

import sys

from policyc.runtime.maps.pinned_map import PinnedMap


class HookedDevices(PinnedMap):
    """By ifindex: what comes in there has the stamp of a hook."""

    NAME = "pc_hooked"

    def ifindexes(self) -> frozenset[int]:
        """All of them."""
        return frozenset(int.from_bytes(key, sys.byteorder) for key in self.all_keys())
