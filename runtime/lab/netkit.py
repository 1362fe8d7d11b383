# SPDX-License-Identifier: Apache-2.0
"""Makes pairs of netkit devices (Linux 6.7), which pyroute2 and the iproute2 of Debian 12 lack.

The node's side is the primary device: only there can programs be attached, for both sides.
"""

import socket
from typing import Literal

from policyc.runtime.devices.links import INFO, KIND, LINK, OF_KIND, connection
from policyc.runtime.kernel.netlink import ACKNOWLEDGE, asked, packed

Mode = Literal["l2", "l3"]
"""l3: both sides have no MAC address, and send no ARP and no neighbour discovery."""
_NEW_LINK, _CREATE = 16, 0x600  # RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL
_ADDRESS, _NAME, _GROUP, _NAMESPACE = 1, 3, 27, 28  # IFLA_*; IFLA_NET_NS_FD
_PEER, _POLICY, _PEER_POLICY, _MODE = 1, 3, 4, 5  # IFLA_NETKIT_*
_MODES = {"l2": 0, "l3": 1}
_DROP = 2  # NETKIT_DROP: of a side without a program


def add(
    name: str,
    peer: str,
    *,
    into: int | None = None,
    mac: str = "",
    peer_mac: str = "",
    mode: Mode = "l2",
    group: int = 0,
    is_open: bool = True,
) -> None:
    """Make a pair in the caller's namespace; `into` is a descriptor of the peer's, if it is another one.

    Without `is_open`, a side drops what the other one sends until it has a program.
    """
    far = {_NAME: _text(peer)} | _address(peer_mac)
    if into is not None:
        far[_NAMESPACE] = _number(into)
    of_kind = {_PEER: LINK.pack(0, 0, 0, 0, 0) + packed(far), _MODE: _number(_MODES[mode])}
    if not is_open:
        of_kind |= {_POLICY: _number(_DROP), _PEER_POLICY: _number(_DROP)}
    info = {KIND: _text("netkit"), OF_KIND: packed(of_kind)}
    near = {_NAME: _text(name), _GROUP: _number(group), INFO: packed(info)} | _address(mac)
    with connection(f"cannot make the netkit pair {name}") as netlink:
        body = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + packed(near)
        asked(netlink, _NEW_LINK, body, _CREATE | ACKNOWLEDGE)


def _address(mac: str) -> dict[int, bytes]:
    return {_ADDRESS: bytes.fromhex(mac.replace(":", ""))} if mac else {}


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")
