# SPDX-License-Identifier: Apache-2.0
"""The node attaches a hook to a device in its own namespace, and moves the device into a pod's."""

from tests.guest.ipvlan.bed import Bed
from tests.guest.ipvlan.hooks import PINS, ifindex_of_link
from tests.guest.ipvlan.pods import index, ip, run
from tests.guest.ipvlan.traffic import datagram


def moved(bed: Bed) -> None:
    run("ip netns add m")
    if bed.mode == "exclusive":
        ip("node", "link add em type veth peer name wm netns net")
        ip("net", "link set wm up")
    else:
        ip("node", f"link add em link up0 type {bed.kind}")
    bed.hooks.attach("target", "node", "em", "egress")
    bed.row("moved", "ifindex in the node's namespace", str(index("node", "em")))
    _counts(bed, "node", "in the node's namespace")
    ip("node", "link set em netns m")
    _counts(bed, "m", "in a pod's namespace")
    ip("m", "link del em")
    if bed.hooks.tcx:
        bed.row("moved", "deleted", f"ifindex of the link {ifindex_of_link('target')}")
    run(f"rm -f {PINS}/link-target; ip netns del m")


def _counts(bed: Bed, pod: str, what: str) -> None:
    ip(
        pod,
        "link set em up",
        "addr replace 10.8.0.2/24 dev em",
        "neigh replace 10.8.0.1 lladdr 02:00:00:00:00:01 dev em nud permanent",
    )
    bed.sent("moved", what, datagram(pod, "10.8.0.1"))
    if bed.hooks.tcx:
        bed.row("moved", what, f"ifindex of the link {ifindex_of_link('target')}")
