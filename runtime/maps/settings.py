# SPDX-License-Identifier: Apache-2.0
"""Settings of the node in arrays of one entry: clock, answers to rejected packets, devices."""

import os
import sys

from policyc.runtime.maps.pinned_map import SingleEntry
from policyc.runtime.undo import Undo


class Clock(SingleEntry):
    """pc_clock: kernel ticks per second."""

    NAME = "pc_clock"

    def set_rate(self, ticks_per_second: int) -> None:
        """CONFIG_HZ of the running kernel (runtime/kernel/clock.py)."""
        self.set(ticks_per_second.to_bytes(self.info.value_size, sys.byteorder))


class AnswerMac(SingleEntry):
    """pc_answer_mac: the source MAC of answers to rejected packets, which no pod knows."""

    NAME = "pc_answer_mac"

    def draw(self) -> None:
        """Draw a new one."""
        mac = os.urandom(self.value.field("mac").size)
        self.set(self.value.pack(mac=mac, is_set=1))


class OwnDeviceSetting(SingleEntry):
    """An ifindex of one of our own devices; 0: none."""

    def set_device(self, ifindex: int, undo: Undo) -> None:
        """The device that packets are redirected to."""
        self.set(self.value.pack(device=ifindex), undo)


class FragmentDevice(OwnDeviceSetting):
    """pc_reasm_device: where fragments that arrive before their first one go."""

    NAME = "pc_reasm_device"


class ServiceRouteDevice(OwnDeviceSetting):
    """pc_route_to: the device to which `--service-cidr` routes."""

    NAME = "pc_route_to"


class NetfilterHooks(SingleEntry):
    """pc_netfilter: our own hooks in netfilter's PREROUTING, for each IP family."""

    NAME = "pc_netfilter"

    @property
    def n_hooks(self) -> int:
        """The number that `set_hooks` wrote."""
        return self.value.number(self.entry, "own_hooks")

    def set_hooks(self, n: int, undo: Undo) -> None:
        """How many there are. A list with more has hooks of other software."""
        self.set(self.value.pack(own_hooks=n), undo)
