# SPDX-License-Identifier: Apache-2.0
"""The pods whose sockets the hooks of a cgroup serve, by the cookie of their network namespace."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.kernel import namespaces
from policyc.runtime.state import LoadedEndpoint


@dataclass(frozen=True, slots=True)
class PodSockets:
    """The addresses of pods by cookie, and the titles of the node's other pods."""

    served: Mapping[int, tuple[Address, ...]]
    others: tuple[str, ...]


def found(endpoints: Iterable[LoadedEndpoint]) -> PodSockets:
    """Look for the namespaces of the node's pods.

    One that is not found is not served. Nor is one of two pods: nothing shows which has a socket.
    """
    pods = [each for each in endpoints if each.ifindex and each.interface]
    shared = Counter(each.netns for each in pods)
    known = {each.netns: each for each in pods if shared[each.netns] == 1}
    cookies = namespaces.cookies_of(ident for ident in known if ident is not None)
    served = {cookie: known[ident] for ident, cookie in cookies.items()}
    others = {each.title for each in pods} - {each.title for each in served.values()}
    return PodSockets(
        {cookie: tuple(map(ip_address, each.addresses)) for cookie, each in served.items()},
        tuple(sorted(others)),
    )
