# SPDX-License-Identifier: Apache-2.0
"""Packets that a pod builds itself, and addresses that it gives itself."""

from tests.guest.ipvlan.bed import ELSEWHERE, Bed
from tests.guest.ipvlan.hooks import STAMP
from tests.guest.ipvlan.pods import ADDRESSES, FAMILIES, ip, said
from tests.guest.ipvlan.traffic import frame, raw, udp
from tests.guest.ipvlan.xdp_socket import by_xdp

ABOUT = ("has_socket", "cgroup", "stamp")
FREE = {4: "10.9.0.99", 6: "fd09::99"}


def forged(bed: Bed, *targets: str) -> None:
    """With a source address that is not the pod's; its hook stamps what it sees."""
    for target in targets:
        macs = bed.macs(target)
        for family in FAMILIES:
            source, to, end = ELSEWHERE[family], ADDRESSES[target][family], f"-> {target} v{family}"
            other = "b" if target == "net" else "net"
            neighbour = raw("a", ADDRESSES[other][family], to)
            bed.sent("forged", f"raw socket, {other}'s source {end}", neighbour)
            bed.sent("forged", f"raw socket {end}", raw("a", source, to))
            for name, send in (
                ("AF_PACKET", frame("a", macs, source, to)),
                ("AF_PACKET QDISC_BYPASS", frame("a", macs, source, to, bypass=True)),
                ("AF_XDP", by_xdp("a", macs, source, to)),
            ):
                bed.sent("forged", f"{name} {end}", send, ABOUT, todo={"a_out": STAMP})
        marked = frame("a", macs, ELSEWHERE[4], ADDRESSES[target][4], bypass=True, mark=0x77)
        what = f"AF_PACKET QDISC_BYPASS with SO_MARK 0x77 -> {target} v4"
        bed.sent("forged", what, marked, ("mark",))


def addresses(bed: Bed) -> None:
    """Another pod's address, and a free one."""
    for family, length, options in ((4, 24, ""), (6, 64, " nodad")):
        theirs, free = ADDRESSES["b"][family], FREE[family]
        add = "ip -n a addr add"
        taken = said(f"{add} {theirs}/{length} dev ea{options}")
        bed.row("forged", f"a adds b's address to its slave v{family}", taken)
        ip("a", f"addr del {theirs}/{length} dev ea", force=True)
        taken = said(f"{add} {theirs} dev lo{options}")
        bed.row("forged", f"a adds b's address to lo v{family}", taken)
        what = f"a -> net v{family} from b's address, put on lo"
        bed.sent("forged", what, udp("a", "net", family, bind=theirs))
        taken = said(f"{add} {free}/{length} dev ea{options}")
        bed.row("forged", f"a adds a free address to its slave v{family}", taken)
        what = f"a -> net v{family} from the free address"
        bed.sent("forged", what, udp("a", "net", family, bind=free))
        ip("a", f"addr del {theirs} dev lo", f"addr del {free}/{length} dev ea", force=True)
