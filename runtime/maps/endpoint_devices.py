# SPDX-License-Identifier: Apache-2.0
"""pc_if (datapath/endpoints.h): the pods of this node by the host-side device."""

from policyc.runtime.maps.pinned_map import PinnedMap


class EndpointDevices(PinnedMap):
    """By ifindex, the struct pc_endpoint of the pod behind the device."""

    NAME = "pc_if"
