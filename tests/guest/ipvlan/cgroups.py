# SPDX-License-Identifier: Apache-2.0
"""Programs at the pods' cgroups."""

from tests.guest.ipvlan.bed import ELSEWHERE, Bed
from tests.guest.ipvlan.hooks import DROP, SETSOCKOPT, at_cgroup
from tests.guest.ipvlan.pods import ADDRESSES, FAMILIES
from tests.guest.ipvlan.traffic import frame, tcp, udp


def drops(bed: Bed) -> None:
    """A packet that one of the hooks drops, and what its sender learns."""
    for family in FAMILIES:
        what = f"a -> b v{family}"
        bed.sent("cgroup", f"{what}, UDP", udp("a", "b", family), ("first",))
        for hook in ("cg_a_out", "cg_b_in"):
            send = udp("a", "b", family)
            bed.sent("cgroup", f"{what}, UDP, dropped at {hook}", send, todo={hook: DROP})
        for hook in ("cg_a_out", "cg_b_in", "a_out", "b_in", "parent_out"):
            send = tcp("a", "b", family)
            bed.sent("cgroup", f"{what}, TCP, dropped at {hook}", send, todo={hook: DROP})


def no_bypass(bed: Bed) -> None:
    """A hook at setsockopt() that refuses PACKET_QDISC_BYPASS."""
    send = frame("a", bed.macs("net"), ELSEWHERE[4], ADDRESSES["net"][4], bypass=True)
    with at_cgroup("a", "no_bypass", SETSOCKOPT):
        bed.sent("cgroup", "AF_PACKET, a hook at setsockopt() refuses QDISC_BYPASS", send)
