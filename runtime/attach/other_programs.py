# SPDX-License-Identifier: Apache-2.0
"""Programs of other software at pods' devices: tc programs and filters, and netdev chains of nftables.

They would not see packets that are redirected past them.
"""

import errno
from collections.abc import Iterable
from typing import Any

from policyc.runtime.attach import attach, clsact
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import bpf_syscall, features, rtnetlink
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.state import Attachment

_PURPOSE = "the fast path"
_OTHERWISE = "load with --forwarding stack"
_QDISCS = ("clsact", "ingress")
_NETDEV = 5
"""NFPROTO_NETDEV of <linux/netfilter.h>: chains at single devices."""
_NO_NFTABLES = (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
"""What a kernel without nftables answers."""


def what_is_there(pins: Pins, pods: Iterable[Attachment]) -> str:
    """What other software has at one of the devices, for a message; "" if there is nothing."""
    pods = tuple(pods)
    try:
        if _has_netdev_chains():
            return "nftables has chains of the family netdev"
        filtered = _with_other_filters(pods)
    except OSError as error:
        raise HostError(f"{_PURPOSE}: {error.strerror}", _OTHERWISE) from error
    for at in pods:
        if at.ifindex in filtered or _has_other_links(pins, at):
            return f"other software has tc programs at {at.interface}"
    return ""


def _has_other_links(pins: Pins, at: Attachment) -> bool:
    """Programs that are attached by tcx."""
    if not features.TCX.is_there():
        return False
    for hook in attach.hooks_at(at):
        try:
            there = bpf_syscall.prog_query_tcx(at.ifindex, hook.tcx_type)
        except OSError as error:
            if error.errno in (errno.ENODEV, errno.EINVAL):  # the device is gone
                continue
            raise
        if set(there) - {attach.attached_program(pins, at, hook)}:
            return True
    return False


def _with_other_filters(pods: Iterable[Attachment]) -> set[int]:
    """The devices with tc filters other than the hooks."""
    with rtnetlink.connection(_PURPOSE, f", or {_OTHERWISE}") as netlink:
        qdiscs = rtnetlink.dump(netlink.get_qdiscs)
        filtered = {each["index"] for each in qdiscs if each.get_attr("TCA_KIND") in _QDISCS}
        return {
            at.ifindex
            for at in pods
            if at.ifindex in filtered
            and any(
                clsact.has_others(netlink, at.ifindex, hook.direction)
                for hook in attach.hooks_at(at)
            )
        }


def _has_netdev_chains() -> bool:
    try:
        with rtnetlink.nftables(_PURPOSE) as nftables:
            return any(map(_is_netdev, rtnetlink.dump(nftables.get_chains)))
    except OSError as error:
        if error.errno in _NO_NFTABLES:
            return False
        raise


def _is_netdev(chain: Any) -> bool:
    return int(chain["nfgen_family"]) == _NETDEV
