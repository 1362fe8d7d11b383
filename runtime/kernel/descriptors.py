# SPDX-License-Identifier: Apache-2.0
"""How many descriptors this process may have open: as many as what it does needs.

The soft limit of RLIMIT_NOFILE is 1024 in most sessions, as select(2) can ask about no more; nothing
here uses that. The hard limit is the administrator's (getrlimit(2)).
"""

import resource
from pathlib import Path

from policyc.runtime.errors import HostError

_SPARE = 64
"""For what else is opened meanwhile: maps, netlink, the connection to an API server."""


def make_room(more: int, purpose: str) -> None:
    """Let so many more be opened, by raising the soft limit where that is too low.

    `HostError`, and nothing is changed, where the hard limit allows less; `purpose` is who needs them.
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
