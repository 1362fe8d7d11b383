# SPDX-License-Identifier: Apache-2.0
"""What the hooks find at a packet: mark, socket, cgroup, MAC address, size, and the stamp."""

from tests.guest.ipvlan.bed import Bed
from tests.guest.ipvlan.hooks import STAMP
from tests.guest.ipvlan.pods import CGROUPS, FAMILIES
from tests.guest.ipvlan.traffic import tcp, udp


def fields(bed: Bed) -> None:
    bed.row("fields", "cgroup of a", str((CGROUPS / "a").stat().st_ino))
    about = ("mark", "ifindex", "smac", "has_socket", "cgroup")
    for target in ("net", "b"):
        bed.sent("fields", f"a -> {target} v4, mark 0x77", udp("a", target, 4, mark=0x77), about)
        for family in FAMILIES:
            what = f"a -> {target} v{family}, TCP"
            bed.sent("fields", what, tcp("a", target, family, 400_000), ("longest", "gso_size"))


def stamps(bed: Bed) -> None:
    """tc_index, set at one hook and read at the next."""
    for family in FAMILIES:
        for source, target, hook in (
            ("a", "net", "a_out"),
            ("a", "b", "a_out"),
            ("net", "a", "parent_in"),
        ):
            what = f"{source} -> {target} v{family}, stamped at {hook}"
            bed.sent("fields", what, udp(source, target, family), ("stamp",), todo={hook: STAMP})
