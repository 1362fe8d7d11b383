# SPDX-License-Identifier: Apache-2.0
"""Whether netfilter of this network namespace may translate packets that leave (NAT in postrouting).

Its conntrack forgets a connection whose packets use the fast path. It then takes a later reply for a
new connection, and rules that masquerade pods translate it.
"""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from policyc.runtime.errors import HostError
from policyc.runtime.kernel import rtnetlink

_POSTROUTING = 4  # NF_INET_POST_ROUTING of <linux/netfilter.h>
_LEGACY = (
    Path("/proc/thread-self/net/ip_tables_names"),
    Path("/proc/thread-self/net/ip6_tables_names"),
)
"""The tables of iptables-legacy that were used once; their rules cannot be read here."""

_NO_NFTABLES = (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
"""What a kernel without nftables answers."""


def is_there() -> bool:
    """Whether nftables has a NAT chain with rules in postrouting, or iptables-legacy the table nat."""
    if any("nat" in path.read_text().split() for path in _LEGACY if path.exists()):
        return True
    try:
        with rtnetlink.nftables("the fast path") as nftables:
            return any(map(_translates, rtnetlink.dump(nftables.get_chains)))
    except OSError as error:
        if error.errno in _NO_NFTABLES:
            return False
        raise HostError(
            f"nftables cannot be read: {error.strerror}", "load with --forwarding stack"
        ) from error


def told_of(fast_path: Sequence[int], note: Callable[[str], object]) -> bool:
    """The same if there are uplinks with the fast path; `note` is told."""
    if not fast_path or not is_there():
        return False
    note(
        "netfilter has NAT rules for packets that leave (postrouting), so packets of external clients"
        " to Services take the stack path"
    )
    return True


def _translates(chain: Any) -> bool:
    hook = chain.get_attr("NFTA_CHAIN_HOOK")
    return (
        chain.get_attr("NFTA_CHAIN_TYPE") == "nat"
        and hook is not None
        and hook.get_attr("NFTA_HOOK_HOOKNUM") == _POSTROUTING
        and bool(chain.get_attr("NFTA_CHAIN_USE"))
    )
