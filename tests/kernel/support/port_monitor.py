# SPDX-License-Identifier: Apache-2.0
"""Watches which pod may have an SNAT port, by the packets that pods and the server really sent.

No packet that the server sends in a pod's connection may reach another pod, unless that connection
ended 120 s ago by FINs that both ends have sent, or was silent for its idle time. Only then may
another pod leave by the port. A RST is no end: the server may never have received it.
"""

from dataclasses import dataclass, field

from tests.kernel.support.packets import (
    FIN,
    RST,
    SYN,
)

NEVER = float("inf")


class TakenError(AssertionError):
    """Another pod got a port whose connection may continue."""


@dataclass
class Held:
    """A connection by the port."""

    source: int
    """The pod's own port."""
    last: float
    is_answered: bool = False
    is_established: bool = False
    pods_fin: float = NEVER
    servers_fin: float = NEVER

    def may_go_on(self, now: float) -> bool:
        idle = 8 * 3600 if self.is_established else 60
        return now < max(self.pods_fin, self.servers_fin) + 120 and now < self.last + idle


@dataclass
class Port:
    """One on the wire: the pod that has left by it, and its connections, the last one at the end.

    The server has one of them at most, and does not tell which: what goes there or comes is of each.
    """

    pod: str
    held: list[Held] = field(default_factory=list)


@dataclass
class PortMonitor:
    """Of TCP connections of one node to one server."""

    ports: dict[int, Port] = field(default_factory=dict)

    def pod_sent(self, pod: str, source: int, port: int, flags: int, now: float) -> None:
        """From a port of its own; it has left by the other one."""
        here = self.ports.get(port)
        if here is None or here.pod != pod:
            if here is not None and any(each.may_go_on(now) for each in here.held):
                raise TakenError(f"{pod} has taken port {port} of {here.pod} at {now}")
            here = self.ports[port] = Port(pod)
        before = here.held[-1:]
        here.held = [each for each in here.held if each.may_go_on(now)]
        if flags & SYN:
            here.held.append(Held(source, now))
        elif not here.held or here.held[-1].source != source:
            fins = [(each.pods_fin, each.servers_fin) for each in before]
            here.held.append(Held(source, now, False, False, *(fins[0] if fins else ())))
        held = here.held[-1]
        held.is_established |= held.is_answered and not flags & (SYN | RST)
        for each in here.held:
            each.last = now
            each.pods_fin = min(each.pods_fin, now if flags & FIN else NEVER)

    def server_sent(self, port: int, flags: int, pod: str, now: float) -> None:
        """In the connection by the port, and it came to the pod."""
        here = self.ports[port]
        if here.pod != pod:
            raise TakenError(f"{pod} got what was sent to {here.pod} by port {port} at {now}")
        here.held[-1].is_answered |= not flags & RST
        for each in here.held:
            each.last = now
            each.servers_fin = min(each.servers_fin, now if flags & FIN else NEVER)
