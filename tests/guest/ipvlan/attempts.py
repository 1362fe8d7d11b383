# SPDX-License-Identifier: Apache-2.0
"""A pod that wants to be rid of its hook at egress, and whether the hook still counts."""

import sys
from dataclasses import dataclass

from tests.guest.ipvlan.bed import Bed
from tests.guest.ipvlan.hooks import STAMP
from tests.guest.ipvlan.pods import (
    ADDRESSES,
    entered,
    index,
    ip,
    netns_of_parent,
    run,
    said,
    succeeds,
    unshared,
)
from tests.guest.ipvlan.traffic import datagram

TRIES = f"{sys.executable} -m tests.guest.ipvlan.tries"
GATEWAY = ADDRESSES["net"][4]


def limited(*capabilities: str) -> str:
    """What a command begins with that has these capabilities alone."""
    kept = ",".join(f"+{each}" for each in capabilities)
    return f"setpriv --bounding-set -all,{kept} --inh-caps -all"


@dataclass(frozen=True)
class Attempts:
    """`prefix` is what a command of the pod begins with."""

    bed: Bed
    part: str
    pod: str
    prefix: str

    @property
    def device(self) -> str:
        return f"e{self.pod}"

    def all(self) -> None:
        self._counts("before")
        if self.bed.hooks.tcx:
            self._detach()
        self._slave()
        if self.bed.mode == "ipvlan":
            self._flag()
        self._rewrite()
        self._filter()
        self._rename()
        self._tries("moves the device to a namespace of its own", f"move {self.device}")

    def _row(self, what: str, command: str) -> None:
        self.bed.row(self.part, what, said(f"{self.prefix} {command}"))

    def _tries(self, what: str, words: str) -> None:
        self._row(what, f"{TRIES} {words}")

    def _counts(self, what: str) -> None:
        self.bed.sent(self.part, what, datagram(self.pod, GATEWAY))

    def _detach(self) -> None:
        at = index(self.pod, self.device)
        self._tries("BPF_PROG_DETACH", f"detach {at}")
        self._tries("BPF_LINK_GET_FD_BY_ID, BPF_LINK_DETACH", "by-id")
        roots = said(f"{entered(self.pod)} {TRIES} detach {at}")
        self.bed.row(self.part, "BPF_PROG_DETACH by the node's root", roots)
        self._counts("then")

    def _slave(self) -> None:
        self._row("a second slave", f"ip link add x0 link {self.device} type {self.bed.kind}")
        if succeeds(f"ip -n {self.pod} link show x0"):
            ip(
                self.pod,
                "link set x0 up",
                "addr add 10.9.0.77/24 dev x0",
                f"route add {GATEWAY}/32 dev x0 src 10.9.0.77",
                force=True,
            )
            self._counts("sent by the second slave")
            ip(self.pod, "link del x0")
        parent, space = index("node", "up0"), netns_of_parent(self.pod, self.device)
        what = f"a second slave, of the parent by its ifindex and netnsid {space}"
        self._tries(what, f"new-slave {parent} {space} {self.bed.mode}")
        ip(self.pod, "link del x9", force=True)

    def _flag(self) -> None:
        change = f"link set {self.device} type ipvlan"
        self._row("sets the flag private", f"ip {change} private")
        ip(self.pod, f"{change} bridge", force=True)

    def _rewrite(self) -> None:
        tc = f"{self.prefix} tc"
        rewrites = said(
            f"{tc} qdisc add dev {self.device} root handle 1: prio && "
            f"{tc} filter add dev {self.device} parent 1: protocol ip matchall "
            "action pedit ex munge ip src set 192.0.2.77 pipe csum ip udp"
        )
        self.bed.row(self.part, "rewrites the source in a qdisc", rewrites)
        out = "b_out" if self.pod == "b" else "a_out"
        send = datagram(self.pod, GATEWAY)
        self.bed.sent(
            self.part, f"then, stamped at {out}", send, ("source", "stamp"), todo={out: STAMP}
        )
        succeeds(f"{entered(self.pod)} tc qdisc del dev {self.device} root")

    def _filter(self) -> None:
        tc = f"{self.prefix} tc"
        succeeds(f"{tc} qdisc add dev {self.device} clsact")
        passes = f"filter add dev {self.device} egress prio 1 protocol all matchall action pass"
        self._row("a filter in front that passes all", f"tc {passes}")
        self._counts("then")
        self._row("deletes clsact", f"tc qdisc del dev {self.device} clsact")
        self._counts("then")

    def _rename(self) -> None:
        self._row("renames the device", f"sh -c '{_renamed(self.device, 'other')}'")
        if succeeds(f"ip -n {self.pod} link show other"):
            default = f"route add default via {GATEWAY}"  # it went with the device's address
            ip(self.pod, default, force=True)
            self._counts("then")
            run(f"{entered(self.pod)} sh -c '{_renamed('other', self.device)}'")
            ip(self.pod, default, force=True)


def _renamed(device: str, name: str) -> str:
    return f"ip link set {device} down && ip link set {device} name {name} && ip link set {name} up"


def in_nodes_user_namespace(bed: Bed) -> None:
    inside = entered("b")
    Attempts(bed, "init", "b", f"{inside} {limited('net_admin', 'net_raw')}").all()
    marks = said(f"{inside} {limited('net_raw')} {TRIES} mark")
    bed.row("init", "sets SO_MARK with CAP_NET_RAW alone", marks)


def in_its_own(bed: Bed) -> None:
    """The pod `u`, whose network namespace is its own user namespace's."""
    with unshared("--map-root-user") as holder:
        try:
            run(f"touch /run/netns/u && mount --bind /proc/{holder.pid}/ns/net /run/netns/u")
            ip("node", f"link add eu link up0 type {bed.kind}", "link set eu netns u")
            ip("u", "link set eu up", "link set lo up", "addr add 10.9.0.13/24 dev eu")
            ip("u", f"route add default via {GATEWAY}")
            bed.hooks.attach("a_out", "u", "eu", "egress")
            inside = f"nsenter -t {holder.pid} -U -n --preserve-credentials"
            Attempts(bed, "userns", "u", inside).all()
        finally:
            succeeds("umount /run/netns/u; rm -f /run/netns/u")
            holder.kill()
