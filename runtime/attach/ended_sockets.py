# SPDX-License-Identifier: Apache-2.0
"""Ends sockets of any network namespace by their cookies, and warns of those that it cannot end."""

from collections.abc import Collection, Mapping
from functools import partial

from policyc.runtime.counts import counted
from policyc.runtime.kernel import namespaces, sock_diag
from policyc.runtime.state import Warn


def end(by_network: Mapping[int, Collection[tuple[int, int]]], which: str, warn: Warn) -> int:
    """End them; the number that ended. `which` says in a warning what connections they are.

    `by_network` has protocol and cookie of each socket, by the cookie of its network namespace.
    """
    left, ended = dict(by_network), 0
    n_all = sum(map(len, left.values()))
    try:
        ended += sock_diag.end(left.pop(namespaces.cookie(), set()))
        for cookie, namespace in namespaces.by_cookie(list(left)):
            work = partial(sock_diag.end, left.pop(cookie))
            ended += namespaces.run_in(namespace, work)
    except OSError as error:  # the change is in force: no reason to fail
        warn(
            f"cannot end {counted(n_all - ended, 'connection')} {which}: "
            f"the kernel does not end sockets ({error.strerror})"
        )
        return ended
    if n_left := sum(map(len, left.values())):
        warn(
            f"cannot end {counted(n_left, 'connection')} {which}: no process "
            f"and no mount shows their network namespace"
        )
    return ended
