# SPDX-License-Identifier: Apache-2.0
"""Programs of other software at devices of the hooks, which do not see packets redirected past them.

These are tc programs, tc filters, programs of netkit, and chains of nftables at single devices. Asks by
our own netlink messages: pyroute2 takes longer to import than a small load takes.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from functools import cached_property

from policyc.runtime.attach import attach, clsact, netkit, tcx
from policyc.runtime.devices import links
from policyc.runtime.endpoints import pod_devices
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall, features
from policyc.runtime.kernel.netlink import Attributes, dumped, unpacked
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Attachment

_NETFILTER = 12  # NETLINK_NETFILTER
_GET_CHAINS = 10 << 8 | 4  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETCHAIN
_CHAINS = struct.Struct("=BBH")  # nfgenmsg
_HOOK, _HOOK_NUMBER = 4, 1  # NFTA_CHAIN_HOOK, NFTA_HOOK_HOOKNUM
_INET, _NETDEV = 1, 5  # NFPROTO_*
_INET_INGRESS = (
    5  # NF_INET_INGRESS: chains of the family inet at single devices, from Linux 5.10 on
)
_NO_NFTABLES = (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
"""What a kernel without nftables answers."""
_GET_QDISCS, _GET_FILTERS = 38, 46  # RTM_GETQDISC, RTM_GETTFILTER
_TC = struct.Struct("=BxxxiIII")  # tcmsg
_TC_KIND, _TC_OPTIONS, _BPF_NAME = 1, 2, 7  # TCA_KIND, TCA_OPTIONS, TCA_BPF_NAME
_NO_FILTERS = (errno.ENOENT, errno.EINVAL, errno.ENODEV)
_GONE = (errno.ENODEV, errno.EINVAL)


class OtherPrograms:
    """The programs of other software. It lists the chains of nftables once, and then remembers them."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins

    def at(self, devices: Iterable[Attachment]) -> str:
        """What other software has at one of the devices, for a message; "" if there is nothing.

        What cannot be read counts as something. At an uplink only what comes in is redirected past
        other programs: what leaves passes them all.
        """
        try:
            return next(self._found(tuple(devices)), "")
        except (OSError, HostError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            return f"other software's programs cannot be read ({why})"

    def _found(self, devices: tuple[Attachment, ...]) -> Iterator[str]:
        if self._has_device_chains:
            yield "nftables has chains at single devices"
        filtered, pins = _with_other_filters(devices), self._pins
        by_name = {at.interface: at.ifindex for at in devices}
        netkits = set(pod_devices.netkit_devices(by_name).values())
        for at in devices:
            if at.ifindex in filtered or _has_other_links(pins, at):
                yield f"other software has tc programs at {at.interface}"
            if at.ifindex in netkits and _has_other_netkit(pins, at):
                yield f"other software has netkit programs at {at.interface}"

    @cached_property
    def _has_device_chains(self) -> bool:
        try:
            with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as netlink:
                return any(map(_is_at_device, dumped(netlink, _GET_CHAINS, _CHAINS.pack(0, 0, 0))))
        except OSError as error:
            if error.errno in _NO_NFTABLES:
                return False
            raise


def _hooks(at: Attachment) -> Iterator[attach.Hook]:
    """Ours that may redirect packets past later ones."""
    return (hook for hook in attach.hooks_at(at) if at.role == "pod" or hook.direction == "ingress")


def _has_other_links(pins: Pins, at: Attachment) -> bool:
    """Programs that are attached by tcx."""
    if not features.TCX.is_there():
        return False
    return any(
        _attached(at.ifindex, hook.tcx_type) - _of_link(pins, at, hook.program)
        for hook in _hooks(at)
    )


def _of_link(pins: Pins, at: Attachment, program: str) -> set[int]:
    """Our program there, also of a load that attached by tcx before."""
    link = tcx.find(pins.link(at.ifindex, program))
    return {link.prog_id} if link else set()


def _has_other_netkit(pins: Pins, at: Attachment) -> bool:
    """Programs at the host's side, which run before packets reach the pod."""
    ours = {ident for _, _, ident in netkit.attached(pins)}
    return bool(_attached(at.ifindex, netkit.SIDES["primary"]) - ours)


def _attached(ifindex: int, attach_type: int) -> set[int]:
    try:
        return set(bpf_syscall.prog_query_tcx(ifindex, attach_type))
    except OSError as error:
        if error.errno in _GONE:
            return set()
        raise


def _with_other_filters(devices: Iterable[Attachment]) -> set[int]:
    """The devices with tc filters other than the hooks'."""
    with links.connection("tc cannot be read") as netlink:
        filtered = {
            _TC.unpack_from(each)[1]
            for each in dumped(netlink, _GET_QDISCS, _TC.pack(0, 0, 0, 0, 0))
            if _kind(each) in (b"clsact", b"ingress")
        }
        return {
            at.ifindex
            for at in devices
            if at.ifindex in filtered
            and any(_has_other_filter(netlink, at.ifindex, hook) for hook in _hooks(at))
        }


def _has_other_filter(netlink: socket.socket, ifindex: int, hook: attach.Hook) -> bool:
    """Whether there are filters that are not our own. The kernel lists a priority as handle 0."""
    parent = clsact.PARENTS[hook.direction]
    try:
        found = dumped(netlink, _GET_FILTERS, _TC.pack(0, ifindex, 0, parent, 0))
    except OSError as error:
        if error.errno in _NO_FILTERS:
            return False
        raise
    for each in found:
        _, _, handle, _, info = _TC.unpack_from(each)
        is_our_place = info >> 16 == clsact.PRIORITY and handle in (0, clsact.HANDLE)
        if not is_our_place or (handle and _name(each) != hook.program.encode()):
            return True
    return False


def _attributes(message: bytes) -> Attributes:
    return unpacked(message[_TC.size :])


def _kind(message: bytes) -> bytes:
    return _attributes(message).get(_TC_KIND, b"").rstrip(b"\0")


def _name(message: bytes) -> bytes:
    options = unpacked(_attributes(message).get(_TC_OPTIONS, b""))
    return options.get(_BPF_NAME, b"").rstrip(b"\0")


def _is_at_device(chain: bytes) -> bool:
    family = _CHAINS.unpack_from(chain)[0]
    hook = unpacked(unpacked(chain[_CHAINS.size :]).get(_HOOK, b""))
    number = int.from_bytes(hook.get(_HOOK_NUMBER, b""), "big")
    return family == _NETDEV or (family == _INET and number == _INET_INGRESS)
