# SPDX-License-Identifier: Apache-2.0
"""Raises the limit of open file descriptors to what this process needs.

The soft limit of RLIMIT_NOFILE is 1024 in most sessions, because select(2) supports no more; this
process does not use select. The administrator sets the hard limit (getrlimit(2)).
"""

import resource
from pathlib import Path

from policyc.runtime.errors import HostError

_SPARE = 64
"""For other files that are open meanwhile: maps, netlink, the connection to an API server."""


def make_room(more: int, purpose: str) -> None:
    """Allow so many more descriptors, by raising the soft limit if it is too low.

    Raises `HostError`, and changes nothing, if the hard limit is lower; `purpose` names the need.
    """
    needed = sum(1 for _ in Path("/proc/self/fd").iterdir()) + more + _SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise HostError(
            f"{purpose} need {needed} open files, and the limit is {hard}",
            f"raise it: LimitNOFILE={needed} in the systemd unit, or `ulimit -Hn {needed}` before",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
