# SPDX-License-Identifier: Apache-2.0
"""Maps of the bypass (datapath/bypass_map.h)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.pinned_map import PRESENT, PinnedMap
from policyc.runtime.undo import Undo


class BypassSockets(PinnedMap):
    """pc_bypass_socks: the sockets of bypassed connections, which the kernel removes."""

    NAME = "pc_bypass_socks"


class BypassRules(PinnedMap):
    """pc_bypass_not: rules whose connections stay with the stack, by epoch."""

    NAME = "pc_bypass_not"

    def add(self, epoch: int, rules: Iterable[int], undo: Undo) -> None:
        """Rules of a generation."""
        for rule in rules:
            self.replace(self.key.pack(epoch=epoch, rule=rule), PRESENT, undo)

    def keep_only(self, epoch: int) -> None:
        """Forget those of other generations."""
        for key in self.all_keys():
            if self.key.number(key, "epoch") != epoch:
                self.delete(key)


class BypassPods(PinnedMap):
    """pc_bypass_pods: the devices of pods whose data may bypass the stack."""

    NAME = "pc_bypass_pods"

    def add(self, devices: Iterable[int], undo: Undo) -> None:
        """Devices by index; those that are there stay."""
        for device in devices:
            self.replace(self.number_key(device), PRESENT, undo)

    def keep_only(self, devices: Iterable[int]) -> None:
        """Forget all others."""
        for key in set(self.all_keys()) - set(map(self.number_key, devices)):
            self.delete(key)


@dataclass(frozen=True, slots=True)
class BypassTotals:
    """What was bypassed since the first load with a bypass."""

    connections: int
    messages: int
    bytes: int
    left: Mapping[str, int]
    """How often a direction left the bypass, by reason."""


def totals(pins: Pins) -> BypassTotals:
    """The counters of all CPUs."""
    ((connections, messages, size, *by_reason),) = per_cpu_sums(pins.map(COUNTS))
    left = {name: n for name, n in zip(REASONS, by_reason, strict=True) if n and name}
    return BypassTotals(connections, messages, size, left)


REASONS = "", "policy", "alone", "pending", "unread", "untracked"
"""Why a direction left the bypass, by enum pc_bypass_by_stack."""
COUNTS = "pc_bypass_count"
MAPS = (
    *(BypassSockets.NAME, BypassPods.NAME, BypassRules.NAME, COUNTS),
    *("pc_bypass_read", "pc_bypass_conns"),
)
"""The names of all maps."""
