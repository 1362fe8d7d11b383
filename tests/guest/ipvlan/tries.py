# SPDX-License-Identifier: Apache-2.0
"""What a pod's process calls: `python -m tests.guest.ipvlan.tries WORDS`; the exit code: was it done?"""

import errno
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

from policyc.runtime.kernel import bpf_syscall, netlink
from tests.guest.ipvlan.pods import unshared

_PROG_DETACH, _LINK_GET_FD_BY_ID = 9, 30
_NEWLINK, _CREATE, _EXCLUSIVE = 16, 0x400, 0x200  # RTM_NEWLINK, NLM_F_*
_NAME, _LINK, _LINK_NETNSID, _LINKINFO, _KIND = 3, 5, 37, 18, 1  # IFLA_*


def detach(ifindex: str) -> None:
    """Any program at the device's egress."""
    attr = struct.pack("=IIIIII", int(ifindex), 0, bpf_syscall.ATTACH_TCX_EGRESS, 0, 0, 0)
    bpf_syscall.bpf(_PROG_DETACH, attr)


def by_id() -> None:
    """The first link of the kernel."""
    bpf_syscall.link_detach(bpf_syscall.bpf(_LINK_GET_FD_BY_ID, struct.pack("=III", 1, 0, 0)))


def mark() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        at.setsockopt(socket.SOL_SOCKET, 36, 0x77)  # SO_MARK


def new_slave(parent: str, space: str, kind: str) -> None:
    """Of a parent in the namespace with that id, which ip(8) cannot ask for."""
    body = bytes(16) + netlink.packed(
        {
            _NAME: b"x9\0",
            _LINK: struct.pack("=i", int(parent)),
            _LINK_NETNSID: struct.pack("=i", int(space)),
            _LINKINFO: netlink.packed({_KIND: kind.encode()}),
        }
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as at:
        netlink.asked(at, _NEWLINK, body, netlink.ACKNOWLEDGE | _CREATE | _EXCLUSIVE)


def move(device: str) -> None:
    """To a network namespace in a user namespace of its own."""
    with unshared() as child:
        try:
            subprocess.run(["ip", "link", "set", device, "netns", str(child.pid)], check=True)
        finally:
            child.kill()


CALLS: dict[str, Callable[..., None]] = {
    "detach": detach,
    "by-id": by_id,
    "mark": mark,
    "new-slave": new_slave,
    "move": move,
}

if __name__ == "__main__":
    try:
        CALLS[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        sys.exit(errno.errorcode.get(error.errno or 0, str(error)))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
