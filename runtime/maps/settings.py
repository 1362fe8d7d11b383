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


class FirstPacketSettings(SingleEntry):
    """pc_first_conf: what a load found out for first packets on the fast path."""

    NAME = "pc_first_conf"

    @property
    def n_hooks(self) -> int:
        """How many hooks in netfilter's PREROUTING, for each IP family, are our own."""
        return self.value.number(self.entry, "own_hooks")

    @property
    def has_other_nodes(self) -> bool:
        """Whether first packets to and from other nodes may use the fast path."""
        return bool(self.value.number(self.entry, "other_nodes"))

    def write(self, n_hooks: int, has_other_nodes: bool, undo: Undo) -> None:
        """A list with more than `n_hooks` hooks has some of other software."""
        self.set(self.value.pack(own_hooks=n_hooks, other_nodes=int(has_other_nodes)), undo)
