# SPDX-License-Identifier: Apache-2.0
"""How often the quotas of endpoints were full (runtime/datapath/quota.h).

read(pins, generation)     for `node status`
forget(pins, kept)         at a load: counts of devices that are no endpoint's any more
"""

from collections.abc import Collection
from dataclasses import dataclass

from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.quota_full import QuotaFull
from policyc.runtime.state import Generation

EXTERNAL, NODE = 0, 1
"""PC_OWNER_EXTERNAL, PC_OWNER_NODE: in the place of an endpoint's device."""
KINDS = {
    1: "new connection gave its place",
    2: "established connection not kept",
    3: "idle connection gave its place",
    4: "datagram in fragments gave its place",
    5: "connection without a SNAT port",
    6: "event not written",
}
"""enum pc_quota, in the words of `node status`."""


@dataclass(frozen=True, slots=True)
class FullQuota:
    """How often an endpoint's own quota was full.

    `endpoint` is `namespace/name`, "this node", "external clients", or the number of a device that is no
    endpoint's any more.
    """

    endpoint: str
    what: str
    times: int


def read(pins: Pins, generation: Generation) -> tuple[FullQuota, ...]:
    """The counts since the pins were made, the largest first."""
    titles = {each.ifindex: each.title for each in generation.endpoints if each.ifindex}
    titles |= {EXTERNAL: "external clients", NODE: "this node"}
    with QuotaFull(pins) as counts:
        found = [
            FullQuota(titles.get(device, f"device {device}"), KINDS[what], times)
            for device, what, times in counts.counts()
        ]
    return tuple(sorted(found, key=lambda each: (-each.times, each.endpoint, each.what)))


def forget(pins: Pins, kept: Collection[int]) -> None:
    """Forget the counts of devices other than these: the kernel gives their numbers to others."""
    with QuotaFull(pins) as counts:
        for key, device in counts.devices():
            if device not in kept and device not in (EXTERNAL, NODE):
                counts.delete(key)
