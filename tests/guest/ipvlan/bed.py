# SPDX-License-Identifier: Apache-2.0
"""The devices of one kind, with hooks attached, and the table that is printed about them."""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

from tests.guest.ipvlan.hooks import PINS, Hooks, Todo
from tests.guest.ipvlan.pods import ADDRESSES, FAMILIES, PODS, entered, ip, mac, run, succeeds
from tests.guest.ipvlan.traffic import Send, udp

P = ParamSpec("P")
NO_SEARCH = "net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0"
ELSEWHERE = {4: "192.0.2.9", 6: "2001:db8::9"}
"""An address that no pod has."""


@dataclass(frozen=True)
class Bed:
    """`kind`: what a pod's device is, as ip(8) spells it; `exclusive`: an interface of its own."""

    hooks: Hooks
    kind: str

    @property
    def mode(self) -> str:
        return self.kind.split()[0]

    def row(self, part: str, what: str, found: str) -> None:
        print(f"{self.mode + ' ' + part:16} | {what:62} | {found}", flush=True)

    def sent(
        self,
        part: str,
        what: str,
        send: Send,
        fields: tuple[str, ...] = (),
        todo: Mapping[str, Todo] | None = None,
    ) -> None:
        """A row: what came of it, the hooks that saw it, and fields of what they saw."""
        port = self.hooks.port(todo)
        said = send(port)
        shown = [f"{name} {self.hooks.shown(port, name)}" for name in fields]
        self.row(part, what, "; ".join([said, self.hooks.which(port), *shown]))

    def exchanged(self, part: str, *pairs: tuple[str, str]) -> None:
        """A datagram and its echo between each pair, in each family."""
        for source, target in pairs:
            for family in FAMILIES:
                self.sent(part, f"{source} -> {target} v{family}", udp(source, target, family))

    def guarded(
        self, facts: "Callable[Concatenate[Bed, P], None]", *args: P.args, **more: P.kwargs
    ) -> None:
        """Facts that fail leave a row, and the others: the run goes on, and ends with 1."""
        try:
            facts(self, *args, **more)
        except Exception as error:  # whatever it is: the other facts do not depend on these
            traceback.print_exc()
            self.hooks.has_failed = True
            self.row("FAILED", getattr(facts, "__name__", ""), repr(error)[:100])

    def macs(self, target: str) -> tuple[str, str]:
        """From the pod `a` to the target."""
        devices = {"net": "wire", "node": "up0"}
        return mac("a", "ea"), mac(target, devices.get(target, f"e{target}"))


def slaves(hooks: Hooks, kind: str) -> Bed:
    """Slaves of `up0` in two pods and in the node."""
    destroy()
    for pod in ("net", *PODS):
        _pod(pod)
    run(f"sysctl -qw {NO_SEARCH}")
    ip("node", "link add up0 type veth peer name wire netns net", "link set up0 up")
    ip("net", "link set wire up")
    _address("node", "up0")
    _address("net", "wire")
    for pod in PODS:
        ip("node", f"link add e{pod} link up0 type {kind}", f"link set e{pod} netns {pod}")
        ip(pod, f"link set e{pod} up")
        _address(pod, f"e{pod}")
        ip(pod, *(f"route add default via {ADDRESSES['net'][family]}" for family in FAMILIES))
    ip("node", f"link add nv0 link up0 type {kind}", "link set nv0 up")
    _attach(hooks, "parent", "node", "up0")
    _attach(hooks, "node", "node", "nv0")
    for pod in PODS:
        _attach(hooks, pod, pod, f"e{pod}")
    hooks.attach("wire_in", "net", "wire", "ingress")
    return Bed(hooks, kind)


def exclusive(hooks: Hooks) -> Bed:
    """A device in the pod `a`, with no parent."""
    destroy()
    for pod in ("net", "a"):
        _pod(pod)
    ip("node", "link add ea type veth peer name wire netns net", "link set ea netns a")
    ip("a", "link set ea up")
    ip("net", "link set wire up")
    _address("a", "ea")
    _address("net", "wire")
    _attach(hooks, "a", "a", "ea")
    hooks.attach("wire_in", "net", "wire", "ingress")
    return Bed(hooks, "exclusive")


def destroy() -> None:
    ip("node", "link del nv0", "link del up0", force=True)
    for pod in ("net", *PODS, "u"):
        succeeds(f"ip netns del {pod}")
    succeeds(f"rm -f {PINS}/link-*")
    time.sleep(0.3)


def _pod(pod: str) -> None:
    run(f"ip netns add {pod}")
    ip(pod, "link set lo up")
    run(f"{entered(pod)} sysctl -qw {NO_SEARCH}")


def _address(pod: str, device: str) -> None:
    own = ADDRESSES[pod]
    ip(pod, f"addr add {own[4]}/24 dev {device}", f"addr add {own[6]}/64 dev {device} nodad")


def _attach(hooks: Hooks, prefix: str, pod: str, device: str) -> None:
    hooks.attach(f"{prefix}_out", pod, device, "egress")
    hooks.attach(f"{prefix}_in", pod, device, "ingress")
