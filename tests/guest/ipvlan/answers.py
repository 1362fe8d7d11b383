# SPDX-License-Identifier: Apache-2.0
"""Packets that hooks redirect, what helpers answer, and which programs may call them."""

from pathlib import Path

from tests.guest.ipvlan.bed import Bed
from tests.guest.ipvlan.hooks import BACK, DROP, PINS, Todo
from tests.guest.ipvlan.pods import ADDRESSES, FAMILIES, entered, index, ip, run, succeeds
from tests.guest.ipvlan.traffic import frame, hears, udp


def own_slave(bed: Bed) -> None:
    """Answers by a redirect to the slave itself."""
    # What comes back from b to b would come back again.
    out = {"b_in": ("OUT", index("b", "eb")), "b_out": DROP}
    for family in FAMILIES:
        what = f"a -> net v{family}, a_out sends it back into the pod"
        bed.sent("answers", what, udp("a", "net", family), todo={"a_out": BACK})
        what = f"a -> b v{family}, b_in sends it out of the same slave"
        bed.sent("answers", what, udp("a", "b", family), todo=out)


def packet_sockets(bed: Bed) -> None:
    """A packet socket of the receiver, where the hook in front of it drops."""
    ends = ADDRESSES["a"][4], ADDRESSES["b"][4]
    for todo, bypass in (("PASS", False), ("DROP", False), ("DROP", True)):
        port = bed.hooks.port({"b_in": (todo, 0)})
        heard = hears("b", port)
        frame("a", bed.macs("b"), *ends, bypass)(port)
        how = "AF_PACKET QDISC_BYPASS" if bypass else "AF_PACKET"
        what = f"{how} a -> b, {todo} at b_in"
        bed.row("answers", what, f"{heard()}; {bed.hooks.which(port)}")


def redirects(bed: Bed) -> None:
    """To a veth of another pod, to the parent and to slaves; and a tail call."""
    run("ip netns add v")
    ip("node", "link add v0 type veth peer name eth0 netns v", "link set v0 up")
    ip("v", "link set lo up", "link set eth0 up", "addr add 10.9.0.50/24 dev eth0")
    bed.hooks.attach("target", "v", "eth0", "ingress")
    veth, parent = index("node", "v0"), index("node", "up0")
    own, other = index("node", "nv0"), index("b", "eb")
    for source, target, hook, todo, what in (
        ("a", "net", "parent_out", ("OUT", veth), "bpf_redirect(veth of another pod)"),
        ("a", "net", "a_out", ("OUT", veth), "bpf_redirect(that veth, of another namespace)"),
        ("a", "net", "a_out", ("OUT", parent), "bpf_redirect(parent, of another namespace)"),
        ("a", "net", "a_out", ("MOVE", 0), "tail call"),
        ("net", "a", "parent_in", ("OUT", veth), "bpf_redirect(veth of another pod)"),
        ("net", "a", "parent_in", ("PEER", veth), "bpf_redirect_peer(veth of another pod)"),
        ("net", "a", "parent_in", ("PEER", own), "bpf_redirect_peer(the node's slave)"),
        ("net", "a", "parent_in", ("PEER", other), "bpf_redirect_peer(b's slave)"),
    ):
        send = udp(source, target, 4)
        bed.sent("helpers", f"{source} -> {target}, {what} at {hook}", send, todo={hook: todo})
    run("ip netns del v")


def routes(bed: Bed) -> None:
    """bpf_fib_lookup() at the slave and at the parent, with forwarding on."""
    todo: Todo = ("FIB", 0)
    sysctl = "sysctl -qw net.ipv4.conf.all.forwarding"
    for pod, hook, device in (("a", "a_out", "ea"), ("node", "parent_out", "up0")):
        run(f"{entered(pod)} {sysctl}=1")
        udp("a", "net", 4)(bed.hooks.port({hook: todo}))
        run(f"{entered(pod)} {sysctl}=0")
        result, found = bed.hooks.routes(hook)
        own = f"{device} of {pod} is {index(pod, device)}"
        what = f"a -> net, bpf_fib_lookup at {hook}"
        bed.row("helpers", what, f"result {result}, ifindex {found}; {own}")


def loads(objects: Path) -> None:
    """Which helpers a program may call, by its type."""
    for path in sorted(objects.glob("call-*.o")):
        may = succeeds(f"bpftool prog load {path} {PINS}/probe")
        succeeds(f"rm -f {PINS}/probe")
        what = path.stem.removeprefix("call-").replace("@", " in ")
        print(f"{'calls':16} | {what:62} | {'loads' if may else 'refused'}", flush=True)
