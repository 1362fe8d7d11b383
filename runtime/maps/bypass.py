# SPDX-License-Identifier: Apache-2.0
"""Maps of the bypass (datapath/bypass_map.h)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from policyc.runtime.kernel.per_cpu import per_cpu_sums
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.pinned_map import PRESENT, PinnedMap
from policyc.runtime.undo import Undo


class BypassSockets(PinnedMap):
    """pc_bypass_socks: the sockets of bypassed connections, which the kernel removes."""

    NAME = "pc_bypass_socks"


class ByEpoch(PinnedMap):
    """A set of numbers for each generation."""

    FIELD: ClassVar[str]

    def add(self, epoch: int, numbers: Iterable[int], undo: Undo) -> None:
        """Those of a generation."""
        for number in numbers:
            key = self.key.pack(**{"epoch": epoch, self.FIELD: number})
            self.replace(key, PRESENT, undo)

    def numbers(self, epoch: int) -> set[int]:
        """Those of a generation."""
        number = self.key.number
        keys = (key for key in self.all_keys() if number(key, "epoch") == epoch)
        return {number(key, self.FIELD) for key in keys}

    def keep_only(self, epoch: int) -> None:
        """Forget those of other generations."""
        for key in self.all_keys():
            if self.key.number(key, "epoch") != epoch:
                self.delete(key)


class BypassRules(ByEpoch):
    """pc_bypass_not: rules whose connections stay with the stack."""

    NAME = "pc_bypass_not"
    FIELD = "rule"


class BypassPods(ByEpoch):
    """pc_bypass_pods: the devices of pods whose data may bypass the stack."""

    NAME = "pc_bypass_pods"
    FIELD = "device"


@dataclass(frozen=True, slots=True)
class BypassedSocket:
    """A socket that was added to the bypass."""

    connection: bytes
    """struct pc_tuple of the connection, from its opener."""
    network: int
    """The cookie of its network namespace."""
    cookie: int
    messages: int
    bytes: int
    is_bypassed: bool
    """Whether its last message was bypassed."""
    rules: tuple[int, int]
    """The rules that allow the connection: of egress, then of ingress."""


class BypassedSockets(PinnedMap):
    """pc_bypass_conns: what each such socket sends."""

    NAME = "pc_bypass_conns"

    def read(self, data: bytes) -> list[BypassedSocket]:
        """The sockets of a listing, each once."""
        found = map(self._read, _chunks(data, self.value.size))
        return list({each.cookie: each for each in found}.values())

    def _read(self, raw: bytes) -> BypassedSocket:
        number = self.value.number
        return BypassedSocket(
            connection=self.value.raw(raw, "tuple"),
            network=number(raw, "netns"),
            cookie=number(raw, "socket"),
            messages=number(raw, "messages"),
            bytes=number(raw, "bytes"),
            is_bypassed=bool(number(raw, "is_bypassed")),
            rules=(number(raw, "egress_rule"), number(raw, "ingress_rule")),
        )


def _chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


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


REASONS = "", "policy", "alone", "pending", "unread", "untracked", "tls"
"""Why a direction left the bypass, by enum pc_bypass_by_stack."""
COUNTS = "pc_bypass_count"
MAPS = (
    *(BypassSockets.NAME, BypassPods.NAME, BypassRules.NAME, COUNTS),
    *("pc_bypass_read", "pc_bypass_conns"),
)
"""The names of all maps."""
