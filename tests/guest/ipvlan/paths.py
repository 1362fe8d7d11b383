# SPDX-License-Identifier: Apache-2.0
"""Which hooks see packets between pods, the outside and the node."""

import json
from typing import Any

from tests.guest.ipvlan.bed import ELSEWHERE, Bed
from tests.guest.ipvlan.hooks import BACK, DROP, STAMP
from tests.guest.ipvlan.pods import ADDRESSES, FAMILIES, PODS, ip, mac, run
from tests.guest.ipvlan.traffic import frame, udp
from tests.guest.ipvlan.xdp_socket import by_xdp
from tests.kernel.support.packets import BROADCAST

ENDS = ADDRESSES["a"][4], ADDRESSES["b"][4]
GROUP = ("01:00:5e:00:00:fb", "224.0.0.251")


def pairs(bed: Bed) -> None:
    bed.exchanged("", ("a", "net"), ("net", "a"), ("a", "b"), ("a", "node"), ("node", "a"))


def flags(bed: Bed) -> None:
    """Of ipvlan: private and vepa, and packets that the parent's hook sends back."""
    for flag in ("private", "vepa"):
        ip("node", f"link set nv0 type ipvlan {flag}")
        bed.exchanged(flag, ("a", "b"), ("a", "net"))
        for family in FAMILIES:
            what = f"a -> b v{family}, parent_out sends it back to ingress"
            bed.sent(flag, what, udp("a", "b", family), todo={"parent_out": BACK})
        ends = bed.macs("b"), ELSEWHERE[4], ENDS[1]
        for how, forged in (
            ("AF_PACKET", frame("a", *ends)),
            ("AF_PACKET QDISC_BYPASS", frame("a", *ends, bypass=True)),
            ("AF_XDP", by_xdp("a", *ends)),
        ):
            what = f"{how} a -> b, parent_out sends it back to ingress"
            bed.sent(flag, what, forged, todo={"parent_out": BACK})
        what = "AF_PACKET QDISC_BYPASS a -> broadcast, dropped at parent_out"
        forged = frame("a", (mac("a", "ea"), BROADCAST), *ENDS, bypass=True)
        bed.sent(flag, what, forged, todo={"parent_out": DROP})
    ip("node", "link set nv0 type ipvlan bridge")


def parents_address(bed: Bed) -> None:
    """With neighbour entries for the address of the parent: discovery by IPv6 does not find it."""
    parent = f"lladdr {mac('node', 'up0')}"
    for family in FAMILIES:
        node, pod = ADDRESSES["node"][family], ADDRESSES["a"][family]
        for each in PODS:
            ip(each, f"neigh replace {node} {parent} dev e{each} nud permanent")
        bed.sent("", f"a -> node v{family}, permanent neighbour", udp("a", "node", family))
        ip("node", f"neigh replace {pod} {parent} dev up0 nud permanent")
        what = f"node -> a v{family}, parent_out sends it back to ingress"
        bed.sent("", what, udp("node", "a", family), todo={"parent_out": BACK})
    ip("node", "neigh flush dev up0 nud permanent")
    for each in PODS:
        ip(each, f"neigh flush dev e{each} nud permanent")


def nodes_slave(bed: Bed) -> None:
    """The node has a slave of its own, and routes to the pods by it."""
    own, pod = ADDRESSES["node2"], ADDRESSES["a"]
    ip("node", f"addr add {own[4]}/32 dev nv0", f"addr add {own[6]}/128 dev nv0 nodad")
    ip("node", *(f"route add {pod[family]} dev nv0 src {own[family]}" for family in FAMILIES))
    bed.exchanged("", ("a", "node2"), ("node2", "a"))
    for family in FAMILIES:
        send = udp("node2", "a", family)
        what = f"node2 -> a v{family}, stamped at node_out"
        bed.sent("", what, send, ("stamp",), todo={"node_out": STAMP})
    ip("node", *(f"route del {pod[family]} dev nv0" for family in FAMILIES), "addr flush dev nv0")


def on_the_link(bed: Bed) -> None:
    """ARP and neighbour discovery since the slaves were made, a multicast and a broadcast packet."""
    for what, tag in (
        ("ARP", 1),
        ("neighbour solicitations", 1135),
        ("neighbour advertisements", 1136),
    ):
        bed.row("", what, bed.hooks.which(tag))
    for to, end in (GROUP, (BROADCAST, ENDS[1])):
        for bypass in (False, True):
            how = "AF_PACKET QDISC_BYPASS" if bypass else "AF_PACKET"
            send = frame("a", (mac("a", "ea"), to), ENDS[0], end, bypass)
            what = f"{how} a -> {to}, stamped at a_out"
            bed.sent("", what, send, ("stamp",), todo={"a_out": STAMP})


def layer_3(bed: Bed) -> None:
    """Modes L3 and L3S of ipvlan: do the node's netfilter hooks see pod to pod?"""
    chains = ("input", "forward", "output")
    for mode in ("l3", "l3s"):
        ip("node", f"link set nv0 type ipvlan mode {mode}")
        for family in FAMILIES:
            run("nft add table inet t")
            for chain in chains:
                run(
                    f"nft add chain inet t {chain} '{{ type filter hook {chain} priority 0; }}'; "
                    f"nft add rule inet t {chain} meta l4proto udp counter"
                )
            bed.sent(mode, f"a -> b v{family}", udp("a", "b", family))
            rules = [each["rule"] for each in _listed() if "rule" in each]
            counted = {r["chain"]: r["expr"][-1]["counter"]["packets"] for r in rules}
            run("nft delete table inet t")
            bed.row(mode, f"the node's netfilter, a -> b v{family}", str(counted))
    ip("node", "link set nv0 type ipvlan mode l2")


def _listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("nft -j list table inet t"))["nftables"]
    return found
