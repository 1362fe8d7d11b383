# SPDX-License-Identifier: Apache-2.0
"""The network namespace in which the kernel reassembles fragments that arrived out of order.

    policyc-frag  --veth--  far            in a network namespace without a name
    (our hook)              forwards everything back, with the kernel's defragmentation on

Defragmentation is on only there: in the node's own namespace it would affect every fragment. A mount of
the namespace's file (`place`) below /run/policyc holds the namespace, which ends with the mount. The
kernel fragments a reassembled datagram again as it leaves
(docs/decisions/0032-fragments-out-of-order.md).
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from policyc.runtime.devices import (
    links,
    own_device,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    nf_defrag,
    rtnetlink,
)
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.settings import FragmentDevice
from policyc.runtime.undo import Undo

NAME = "policyc-frag"
COUNTS = "pc_reasm_counts"
_FAR = "far"
_NEAR_MAC, _FAR_MAC = "02:70:63:00:00:01", "02:70:63:00:00:02"  # PC_REASM_MAC; on no other wire
_GATEWAYS = {4: "169.254.255.1", 6: "fe80::1"}
_MTU = 65535
_PURPOSE = "reassembly"
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MNT_DETACH = 0x1000, 2
_FAMILIES = {4: 2, 6: 10}  # AF_INET, AF_INET6
_ONLINK, _PERMANENT, _NO_ARP = 4, 0x80, 0x80

_SETTINGS = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
    "ipv4/conf/all/send_redirects": "0",
    "ipv4/conf/default/send_redirects": "0",
    "ipv6/conf/all/forwarding": "1",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/addr_gen_mode": "1",  # none: without an address it answers nothing
    "ipv6/conf/default/router_solicitations": "0",
    "ipv4/ipfrag_time": "2",
    "netfilter/nf_conntrack_frag6_timeout": "2",
    "ipv4/ipfrag_high_thresh": str(16 << 20),
    "netfilter/nf_conntrack_frag6_high_thresh": str(16 << 20),
}
"""Fragments that are late by more than two seconds are lost.

No flood takes more than 16 MiB per family.
"""

_libc = ctypes.CDLL(None, use_errno=True)


def make(place: Path, undo: Undo) -> int:
    """Make the device and its namespace if they do not exist; gives its ifindex. See `start`.

    Raises `HostError` if this kernel cannot; then nothing is left behind.
    """
    there = own_device.find(NAME, _NEAR_MAC, _PURPOSE)
    if there is not None and there.is_up and _is_held(place):  # else a load died while it made it
        return there.ifindex
    remove(place)
    undo.by(remove, place)
    try:
        _make_namespace(place)
        own_device.quieten(NAME)
        made = own_device.find(NAME, _NEAR_MAC, _PURPOSE)
    except OSError as error:
        remove(place)
        raise HostError(
            f"cannot create the network namespace for reassembly: {error.strerror}",
            f"the kernel needs nf_tables, nft_ct and nf_defrag; {place.parent} must allow mounts",
        ) from error
    if made is None:
        remove(place)
        raise HostError(f"the device {NAME} vanished while it was made")
    return made.ifindex


def start(ifindex: int, undo: Undo) -> None:
    """Set the device up, now that its hook is attached."""
    own_device.start(ifindex, _PURPOSE, undo)


def remove(place: Path) -> None:
    """Remove the device and the namespace; does nothing if there are none of ours."""
    links.remove_veth(NAME, _NEAR_MAC)
    forget(place)


def forget(place: Path) -> None:
    """Release the namespace, whose device is elsewhere or gone."""
    while _is_held(place):
        _check(_libc.umount2(os.fsencode(place), _MNT_DETACH))
    place.unlink(missing_ok=True)


def configure(pins: Pins, ifindex: int, undo: Undo) -> None:
    """Write where hooks send fragments that arrive before their first one; 0: they are dropped."""
    with FragmentDevice(pins) as device:
        device.set_device(ifindex, undo)


def _make_namespace(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    with _in_new_namespace() as outside:
        place.touch()
        target = os.fsencode(place)
        _check(_libc.mount(b"/proc/thread-self/ns/net", target, None, _MS_BIND, None))
        nf_defrag.enable()
        for name, value in _SETTINGS.items():
            with suppress(FileNotFoundError):  # a kernel without IPv6 lacks some of them
                Path(f"/proc/sys/net/{name}").write_text(value)
        with rtnetlink.connection(_PURPOSE) as netlink:
            _connect(netlink, outside)


def _connect(netlink: Any, outside: int) -> None:
    """Make the veth pair, and route everything back by it, to one permanent neighbour."""
    near = {"ifname": NAME, "address": _NEAR_MAC, "mtu": _MTU, "net_ns_fd": outside}
    netlink.link("add", ifname=_FAR, kind="veth", address=_FAR_MAC, mtu=_MTU, peer=near)
    (far,) = netlink.link_lookup(ifname=_FAR)
    netlink.link("set", index=1, state="up")  # without it no routing table resolves a gateway
    netlink.link("set", index=far, flags=_NO_ARP, mask=_NO_ARP)
    netlink.link("set", index=far, state="up")
    for version, gateway in _GATEWAYS.items():
        if version == 6 and not Path("/proc/sys/net/ipv6").exists():
            continue
        family = _FAMILIES[version]
        netlink.neigh(
            "add", family=family, dst=gateway, lladdr=_NEAR_MAC, ifindex=far, state=_PERMANENT
        )
        netlink.route("add", family=family, dst="default", gateway=gateway, oif=far, flags=_ONLINK)


@contextmanager
def _in_new_namespace() -> Iterator[int]:
    """Move this thread into a new network namespace; gives a descriptor of the previous one."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.unshare(_CLONE_NEWNET))
        try:
            yield before
        finally:
            _check(_libc.setns(before, _CLONE_NEWNET))
    finally:
        os.close(before)


def _is_held(place: Path) -> bool:
    """Whether a namespace is mounted there."""
    return place.exists() and place.stat().st_dev != place.parent.stat().st_dev


def _check(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
