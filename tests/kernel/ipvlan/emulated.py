# SPDX-License-Identifier: Apache-2.0
"""The lab with veths in place of ipvlan slaves, for kernels without ipvlan.

A program at the node's sides of the veths does what ipvlan does (switch.bpf.c). All else is as with
slaves: the load attaches to the pods' own devices. Only its look at a device's kind is left out.
"""

import itertools
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from policyc.runtime.attach import clsact
from policyc.runtime.endpoints import slaves as pod_slaves
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.endpoints.slaves import Slave
from policyc.runtime.kernel import bpf_syscall, namespaces
from policyc.runtime.kernel.libbpf import Object
from policyc.runtime.lab import wiring
from policyc.runtime.lab.topology import Lab
from tests.kernel.ipvlan.bed import Slaves, slaves
from tests.kernel.support.objects import CLANG
from tests.kernel_corpus.surroundings import own_bpffs

_SOURCE = Path(__file__).with_name("switch.bpf.c")
_SIDE = "side"


def _veth(netlink: IPRoute, parent: str, name: str, **into: int) -> None:
    """In place of a slave: the node's side is named after a number, which all have in their order."""
    number = next(n for n in itertools.count() if not netlink.link_lookup(ifname=f"{_SIDE}{n}"))
    (about,) = netlink.link("get", ifname=parent)
    peer = {"ifname": name, "address": about.get_attr("IFLA_ADDRESS"), **into}
    netlink.link("add", ifname=f"{_SIDE}{number}", kind="veth", peer=peer)
    (index,) = netlink.link_lookup(ifname=f"{_SIDE}{number}")
    netlink.link("set", index=index, state="up")


def _found(
    _path: Path, records: Iterable[EndpointRecord], uplinks: Mapping[str, int], *_: object
) -> dict[str, Slave]:
    """Without a look at the kinds of the devices and their parent."""
    (parent,) = uplinks.values()
    slaves = {}
    for record in records:
        assert record.slave and record.interface
        netns, device = record.slave
        with netns.open("rb") as namespace:
            number = namespace.fileno()
            cookie = namespaces.run_in(number, namespaces.cookie)
            ifindex = namespaces.run_in(number, partial(socket.if_nametoindex, device))
        slaves[record.interface] = Slave(record.interface, netns, cookie, ifindex, parent)
    return slaves


def _of_node(parents: Iterable[int]) -> dict[str, int]:
    return {wiring.NODE_SLAVE: socket.if_nametoindex(wiring.NODE_SLAVE)} if [*parents] else {}


@contextmanager
def emulated(folder: Path) -> Iterator[Slaves]:
    """The lab; nothing is loaded."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(wiring, "_add_slave", _veth)
        patched.setattr(pod_slaves, "found", _found)
        patched.setattr(pod_slaves, "of_node", _of_node)
        with slaves(folder) as lab, own_bpffs(folder / "switch"):
            _switch(lab, folder)
            yield lab


def _switch(lab: Slaves, folder: Path) -> None:
    target = folder / "switch.bpf.o"
    subprocess.run([*CLANG, "-c", str(_SOURCE), "-o", str(target)], check=True)

    def attach() -> None:
        with Object(target, folder / "switch") as loaded:
            loaded.load()
            sides = [
                socket.if_nametoindex(f"{_SIDE}{n}") for n in range(len(lab.lab.node.pods) + 1)
            ]
            for key, side in zip(_addresses(lab.lab), sides, strict=True):
                for address in key:
                    _put(
                        loaded.map_fd("k_slaves"), ip_address(address).packed.ljust(16, b"\0"), side
                    )
            parent = socket.if_nametoindex(lab.lab.node.uplink)
            _put(loaded.map_fd("k_parent"), bytes(4), parent)
            for side in sides:
                clsact.attach(loaded.program_fd("k_from_slave"), side, "ingress", "k_from_slave")
            clsact.attach(loaded.program_fd("k_from_wire"), parent, "ingress", "k_from_wire")

    lab.on_node(attach)


def _put(fd: int, key: bytes, ifindex: int) -> None:
    bpf_syscall.map_update(fd, key, ifindex.to_bytes(4, "little"))


def _addresses(lab: Lab) -> list[tuple[str, str]]:
    """Of the pods, then of the node: the order in which their devices were made."""
    names = [*(pod.endpoint.key for pod in lab.node.pods), lab.node.name]
    return [(str(lab.ends[each].ipv4), str(lab.ends[each].ipv6)) for each in names]
