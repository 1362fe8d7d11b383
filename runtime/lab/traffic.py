# SPDX-License-Identifier: Apache-2.0
"""Sends probes between the ends of a lab, and gives the outcome of each.

`send` forks one child. Its thread enters each end's namespace only to open a socket there (a socket
stays where it was opened), so one event loop runs all servers and all probes. TCP: connect, send a
token, get it back. UDP: the datagram comes back from the address it was sent to. ICMP: echo.

A drop shows only as silence. So a probe without an answer is sent again in a second round, with more
time, before it counts as denied. Any answer is final. Time is counted in echoes of a control flow
(`control.py`), so that a slow machine does not pass for a drop.
"""

import asyncio
import contextlib
import errno
import functools
import math
import os
import resource
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from policyc.runtime.lab.children import LabError, call, enter
from policyc.runtime.lab.control import ControlFlow
from policyc.runtime.lab.icmp import Echo
from policyc.runtime.lab.probes import Family, Observation, Outcome, Probe, Protocol
from policyc.runtime.lab.topology import End

_REFUSALS = frozenset(
    {errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES}
)
_TOKEN = 64  # bytes at most
_BACKLOG = 512
_SLACK = 60.0  # seconds for everything except waiting
_SLOWEST = 20  # times as long as on a machine that keeps up
_FILES = 16384  # open at once, at most
_IP_RECVERR = 11
_IPV6_RECVERR = 25
_IP_BIND_ADDRESS_NO_PORT = 24  # the port is chosen at connect, per destination


@dataclass(frozen=True, slots=True)
class Round:
    """How long each try waits for an answer, and how many probes run at once."""

    # Seconds on a machine that keeps up. UDP and ICMP send once per value, TCP waits for the sum.
    waits: tuple[float, ...]
    n_at_once: int


# TCP sends its SYN again after one second: the second round has room for that.
ROUNDS = (Round((0.1, 0.2, 0.4), 1024), Round((0.2, 0.4, 0.8), 768))


def send(
    ends: Mapping[str, End], probes: Iterable[Probe], *, rounds: Sequence[Round] = ROUNDS
) -> dict[Probe, Observation]:
    """Send every probe between `ends` (`Lab.ends`); the observations, in the order of the probes.

    On a machine that keeps up, each round lasts at most n_probes / n_at_once times the sum of its
    waits. LabError is raised if a busy machine takes 20 times as long.
    """
    asked = tuple(dict.fromkeys(probes))
    _reject_unknown_ends(ends, asked)
    work = functools.partial(_send_in_child, ends, asked, rounds)
    seen = call(work, timeout=_SLACK + _SLOWEST * _longest(len(asked), rounds))
    return {probe: seen[probe] for probe in asked}


def _longest(n_probes: int, rounds: Sequence[Round]) -> float:
    """The maximum in seconds, if every probe is denied and the machine keeps up."""
    return sum(math.ceil(n_probes / r.n_at_once) * sum(r.waits) for r in rounds)


def _reject_unknown_ends(ends: Mapping[str, End], probes: Iterable[Probe]) -> None:
    for probe in probes:
        for name in (probe.source, probe.destination):
            if name not in ends:
                raise LabError(f"{probe}: the lab has no end called {name}")
            if ends[name].address(probe.family) is None:
                raise LabError(f"{probe}: {name} has no IPv{probe.family} address")


def _send_in_child(
    ends: Mapping[str, End], probes: Sequence[Probe], rounds: Sequence[Round]
) -> dict[Probe, Observation]:
    _raise_file_limit()
    return asyncio.run(_run_beside_control(ends, probes, rounds))


def _raise_file_limit() -> None:
    """Raise the limit as far as allowed: one round needs more sockets than the usual 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


async def _run_beside_control(
    ends: Mapping[str, End], probes: Sequence[Probe], rounds: Sequence[Round]
) -> dict[Probe, Observation]:
    with ControlFlow.open() as control:
        return await control.beside(_run_rounds(ends, probes, rounds, control))


async def _run_rounds(
    ends: Mapping[str, End],
    probes: Sequence[Probe],
    rounds: Sequence[Round],
    control: ControlFlow,
) -> dict[Probe, Observation]:
    seen: dict[Probe, Observation] = {}
    async with contextlib.AsyncExitStack() as resources:
        sockets = resources.enter_context(_Sockets.of(ends, control))
        await _serve(sockets, probes, resources)
        left = list(probes)
        for number in rounds:
            seen |= await _run_round(sockets, left, number)
            left = [probe for probe in left if seen[probe].outcome is Outcome.DENIED]
    return seen


async def _run_round(
    sockets: "_Sockets", probes: Sequence[Probe], number: Round
) -> dict[Probe, Observation]:
    gate = asyncio.Semaphore(number.n_at_once)

    async def one(probe: Probe) -> Observation:
        async with gate:
            return await _observe(sockets, probe, number.waits)

    return dict(zip(probes, await asyncio.gather(*map(one, probes)), strict=True))


async def _observe(sockets: "_Sockets", probe: Probe, waits: tuple[float, ...]) -> Observation:
    try:
        await _ASK[probe.protocol](sockets, probe, waits)
    except TimeoutError:
        return Observation(Outcome.DENIED)
    except OSError as error:
        if error.errno == errno.ENOBUFS:  # dropped at the sender's own device, as by a hook there
            return Observation(Outcome.DENIED)
        outcome = Outcome.REFUSED if error.errno in _REFUSALS else Outcome.ERROR
        return Observation(outcome, os.strerror(error.errno) if error.errno else str(error))
    return Observation(Outcome.ALLOWED)


async def _ask_tcp(sockets: "_Sockets", probe: Probe, waits: tuple[float, ...]) -> None:
    loop = asyncio.get_running_loop()
    with sockets.client(probe, socket.SOCK_STREAM) as sock:
        async with sockets.control.timeout(sum(waits)):
            await loop.sock_connect(sock, sockets.target(probe))
            token = os.urandom(16)
            await loop.sock_sendall(sock, token)
            echo = b""
            while len(echo) < len(token):
                chunk = await loop.sock_recv(sock, _TOKEN)
                if not chunk:
                    raise ConnectionResetError(errno.ECONNRESET, "closed before the token was back")
                echo += chunk
        if echo != token:
            raise OSError(errno.EBADMSG, "another token came back")


async def _ask_udp(sockets: "_Sockets", probe: Probe, waits: tuple[float, ...]) -> None:
    loop = asyncio.get_running_loop()
    token = os.urandom(16)
    with sockets.client(probe, socket.SOCK_DGRAM) as sock:
        await loop.sock_connect(sock, sockets.target(probe))
        for wait in waits:
            sock.send(token)
            with contextlib.suppress(TimeoutError):
                async with sockets.control.timeout(wait):
                    while await loop.sock_recv(sock, _TOKEN) != token:
                        pass
                    return
    raise TimeoutError


async def _ask_icmp(sockets: "_Sockets", probe: Probe, waits: tuple[float, ...]) -> None:
    echo = sockets.echo(probe.source, probe.family)
    await echo.probe(sockets.target(probe)[0], waits)


_ASK = {Protocol.TCP: _ask_tcp, Protocol.UDP: _ask_udp, Protocol.ICMP: _ask_icmp}


async def _serve(
    sockets: "_Sockets", probes: Iterable[Probe], resources: contextlib.AsyncExitStack
) -> None:
    """Listen wherever a probe arrives; the node's kernel answers ICMP by itself."""
    loop = asyncio.get_running_loop()
    wanted = {(p.destination, p.family, p.protocol, p.port) for p in probes}
    for name, family, protocol, port in sorted(wanted):
        if protocol is Protocol.TCP:
            sock = sockets.server(name, family, socket.SOCK_STREAM, port)
            server = await asyncio.start_server(_echo_stream, sock=sock, backlog=_BACKLOG)
            resources.callback(server.close)
        elif protocol is Protocol.UDP:
            sock = sockets.server(name, family, socket.SOCK_DGRAM, port)
            loop.add_reader(sock, _echo_datagrams, sock)
            resources.callback(sock.close)
            resources.callback(loop.remove_reader, sock)


async def _echo_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # a client that gave up does not concern the server
        while data := await reader.read(_TOKEN):
            writer.write(data)
            await writer.drain()
    writer.close()


def _echo_datagrams(sock: socket.socket) -> None:
    while True:
        try:
            data, sender = sock.recvfrom(_TOKEN)
        except BlockingIOError:
            return
        except OSError:  # an error about an earlier datagram, cleared by being read
            continue
        with contextlib.suppress(OSError):
            sock.sendto(data, sender)


class _Sockets:
    """Opens sockets in the namespaces of the ends."""

    def __init__(
        self, ends: Mapping[str, End], files: Mapping[str, int], control: ControlFlow
    ) -> None:
        self.control = control
        self._ends = ends
        self._files = files
        self._echoes: dict[tuple[str, Family], Echo] = {}

    @classmethod
    @contextlib.contextmanager
    def of(cls, ends: Mapping[str, End], control: ControlFlow) -> Iterator["_Sockets"]:
        """Holds the namespaces open; raw sockets are closed at the end."""
        with contextlib.ExitStack() as stack:
            files = {
                name: stack.enter_context(end.namespace.open("rb")).fileno()
                for name, end in ends.items()
            }
            sockets = cls(ends, files, control)
            yield sockets
            for echo in sockets._echoes.values():
                echo.close()

    def target(self, probe: Probe) -> tuple[str, int]:
        """The probe's destination: address and port."""
        return self._address(probe.destination, probe.family), probe.port

    def client(self, probe: Probe, kind: socket.SocketKind) -> socket.socket:
        """A nonblocking socket bound to the source's address."""
        sock = self._open(probe.source, probe.family, kind)
        if probe.family == 4:
            sock.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        else:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVERR, 1)
        if kind is socket.SOCK_STREAM:
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        sock.bind((self._address(probe.source, probe.family), 0))
        return sock

    def server(
        self, name: str, family: Family, kind: socket.SocketKind, port: int
    ) -> socket.socket:
        """A nonblocking socket bound to one address and port, so that replies come from there."""
        sock = self._open(name, family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((self._address(name, family), port))
        except OSError as error:
            raise LabError(f"{name} cannot listen on {kind.name} {port}: {error}") from error
        return sock

    def echo(self, name: str, family: Family) -> Echo:
        """The raw socket of an end and family, opened on first use."""
        if (name, family) not in self._echoes:
            enter(self._files[name])
            self._echoes[name, family] = Echo(self._address(name, family), family, self.control)
        return self._echoes[name, family]

    def _open(self, name: str, family: Family, kind: socket.SocketKind) -> socket.socket:
        enter(self._files[name])
        sock = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, kind)
        sock.setblocking(False)
        return sock

    def _address(self, name: str, family: Family) -> str:
        return str(self._ends[name].address(family))
