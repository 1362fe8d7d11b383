# SPDX-License-Identifier: Apache-2.0
"""The hooks: where they are attached, what they saw of a port, and what they do with its packets."""

import itertools
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.btf import Btf
from tests.guest.ipvlan.pods import CGROUPS, PODS, entered, run, start, succeeds

PINS = Path("/run/bpf/facts")
INGRESS, EGRESS, SETSOCKOPT = 0, 1, 22
"""BPF_CGROUP_* of <linux/bpf.h>."""

Todo = tuple[str, int]
"""One of `enum action`, and its argument."""
DROP, BACK, STAMP = ("DROP", 0), ("BACK", 0), ("STAMP", 41)

_PAIR = struct.Struct("=II")


class Hooks:
    """The programs of hooks.bpf.c, by tcx links or by clsact filters."""

    def __init__(self, path: Path, tcx: bool) -> None:
        btf = Btf.of_object(path)
        self.tcx = tcx
        self.has_failed = False
        """Whether a part of the facts ended with an error."""
        self._numbers = {name.lower(): number for name, number in btf.enum("hook").items()}
        self._actions = btf.enum("action")
        self._seen = btf.struct("seen")
        self._ports = itertools.count(20001)
        run(f"mkdir -p {PINS}/maps && bpftool prog loadall {path} {PINS} pinmaps {PINS}/maps")
        with _opened("maps/jumps") as jumps, _opened("b_out") as program:
            bpf_syscall.map_update(jumps, struct.pack("=I", 0), struct.pack("=I", program))

    def attach(self, program: str, pod: str, device: str, direction: str) -> None:
        """Direction: "ingress" or "egress". A link that the program had before is gone."""
        if not self.tcx:
            succeeds(f"{entered(pod)} tc qdisc add dev {device} clsact")
            run(
                f"{entered(pod)} tc filter replace dev {device} {direction} prio 1000 handle 1 "
                f"bpf da object-pinned {PINS}/{program}"
            )
        elif answer := start(pod, lambda: _link(program, device, direction))():
            raise RuntimeError(answer)

    def port(self, todo: Mapping[str, Todo] | None = None) -> int:
        """A port of its own, for one exchange; by hook, what to do with its packets."""
        port = next(self._ports)
        for hook, (action, argument) in (todo or {}).items():
            with _opened("maps/todo") as todos:
                value = _PAIR.pack(self._actions[action], argument)
                bpf_syscall.map_update(todos, _PAIR.pack(self._numbers[hook], port), value)
        return port

    def which(self, port: int) -> str:
        """The hooks that saw packets of the port, and how many."""
        return self.shown(port, "packets") or "none"

    def shown(self, port: int, name: str) -> str:
        """A field of `struct seen`, of the last packet, at each hook that saw the port."""
        return " ".join(f"{hook}:{self._text(raw, name)}" for hook, raw in self._all(port))

    def routes(self, hook: str) -> tuple[int, int]:
        """What bpf_fib_lookup() said at the hook: result, ifindex."""
        with _opened("maps/fib") as fib:
            key = struct.pack("=I", self._numbers[hook])
            result, ifindex = _PAIR.unpack(
                bpf_syscall.map_lookup(fib, key, _PAIR.size) or bytes(_PAIR.size)
            )
        return result, ifindex

    def _all(self, port: int) -> Iterator[tuple[str, bytes]]:
        with _opened("maps/seen") as seen:
            for hook, number in self._numbers.items():
                if raw := bpf_syscall.map_lookup(seen, _PAIR.pack(number, port), self._seen.size):
                    yield hook, raw

    def _text(self, raw: bytes, name: str) -> str:
        match name:
            case "smac":
                return self._seen.raw(raw, name).hex(":")
            case "source":
                return socket.inet_ntoa(self._seen.raw(raw, name))
            case "mark":
                return hex(self._seen.number(raw, name))
        return str(self._seen.number(raw, name))


def _opened(name: str) -> bpf_syscall.Fd:
    return bpf_syscall.obj_get(PINS / name)


def _link(program: str, device: str, direction: str) -> str:
    kinds = {"ingress": bpf_syscall.ATTACH_TCX_INGRESS, "egress": bpf_syscall.ATTACH_TCX_EGRESS}
    at = socket.if_nametoindex(device)
    pin = PINS / f"link-{program}"
    with _opened(program) as fd, bpf_syscall.link_create_tcx(fd, at, kinds[direction]) as link:
        pin.unlink(missing_ok=True)
        bpf_syscall.obj_pin(link, pin)
    return ""


def ifindex_of_link(program: str) -> int:
    """Of the device that the program's link is attached to; 0: it is gone."""
    with _opened(f"link-{program}") as link:
        return bpf_syscall.link_info(link).ifindex


@contextmanager
def at_cgroups() -> Iterator[None]:
    """The programs of cgroup_skb are attached to the cgroups of the pods."""
    with ExitStack() as held:
        for pod in PODS:
            held.enter_context(at_cgroup(pod, f"cg_{pod}_out", EGRESS))
            held.enter_context(at_cgroup(pod, f"cg_{pod}_in", INGRESS))
        yield


@contextmanager
def at_cgroup(pod: str, program: str, kind: int) -> Iterator[None]:
    """A program is attached to a pod's cgroup."""
    folder = bpf_syscall.Fd(os.open(CGROUPS / pod, os.O_RDONLY))
    with (
        folder as cgroup,
        _opened(program) as fd,
        bpf_syscall.link_create_cgroup(fd, cgroup, kind),
    ):
        yield
