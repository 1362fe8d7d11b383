# SPDX-License-Identifier: Apache-2.0
"""Keeps the node's own sockets off the SNAT ports (net.ipv4.ip_local_reserved_ports).

    require_free(state, ports)     `InputError` where a socket listens there
    reserve(state, ports, undo)    before the switch: adds to the existing reservations
    settle(state, ports, warn)     after it: removes what an earlier load reserved

The ports that are reserved for us, and not by other software, are on record before the kernel is told.
So after a killed command the next one does not mistake our ports for those of other software.
"""

import ipaddress
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import sock_diag
from policyc.runtime.state import StateDir, Warn
from policyc.runtime.undo import Undo

RESERVED = Path("/proc/sys/net/ipv4/ip_local_reserved_ports")
_AUTOMATIC = Path("/proc/sys/net/ipv4/ip_local_port_range")
_SOCKETS = Path("/proc/thread-self/net")  # of this thread's network namespace
_LISTENS, _UNCONNECTED = "0A", "07"  # TCP_LISTEN, TCP_CLOSE of <net/tcp_states.h>

Ports = frozenset[int]
Place = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]
"""Where a socket receives: address and port."""


def require_free(state: StateDir, ports: range) -> None:
    """Raise `InputError` if a socket of the node receives packets to one of the ports.

    Three kinds of sockets do not count. A socket at a loopback address gets no packet from an uplink. A
    UDP socket whose port the kernel may have chosen is a client's, and its packets are seen. A UDP
    socket on a port that an earlier load reserved may have been opened since then.
    """
    low, high = map(int, _AUTOMATIC.read_text().split())
    may_ask = _ours(state).union(range(low, high + 1))
    for protocol, sockets in (("tcp", _listening()), ("udp", _sockets("udp", _UNCONNECTED))):
        for address, port in sockets:
            if port not in ports or _is_loopback(address):
                continue
            if protocol == "udp" and port in may_ask:
                continue
            raise InputError(
                f"--masquerade-ports {shown(ports)}: a socket of the node listens at "
                f"{protocol.upper()} port {port}",
                "choose other ports with --masquerade-ports, or stop the process that `ss -lnp "
                f"'sport = :{port}'` shows",
            )


def _is_loopback(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _listening() -> Iterable[Place]:
    try:
        return sock_diag.listening()
    except OSError:  # a kernel without CONFIG_INET_DIAG; its file also has every connection
        return _sockets("tcp", _LISTENS)


def _sockets(protocol: str, state: str) -> Iterator[Place]:
    for name in (protocol, f"{protocol}6"):
        try:
            lines = (_SOCKETS / name).read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            _, local, _, its_state = line.split()[:4]
            if its_state == state:
                address, _, port = local.partition(":")
                yield _address(address), int(port, 16)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address: words in the host's byte order, in hexadecimal."""
    raw = bytes.fromhex(text)
    words = (int.from_bytes(raw[at : at + 4], "big") for at in range(0, len(raw), 4))
    return ipaddress.ip_address(b"".join(_in_memory(word) for word in words))


def _in_memory(word: int) -> bytes:
    return word.to_bytes(4, sys.byteorder)


def reserve(state: StateDir, ports: range, undo: Undo) -> None:
    """Reserve the ports for this load; those of the previous load stay until `settle`."""
    before, ours = _read(), _ours(state)
    new = frozenset(ports) - (before - ours)
    undo.by(state.set_reserved, spans(ours))
    state.set_reserved(spans(ours | new))
    _write(before | new)
    undo.by(_write, before)


def settle(state: StateDir, ports: range, warn: Warn) -> None:
    """Keep only these ports reserved for us; none, for an empty range.

    Ports that cannot be released stay on record for the next command, and `warn` is told.
    """
    ours = _ours(state)
    keep = ours & frozenset(ports)
    if ours == keep:
        return
    try:
        _write(_read() - (ours - keep))
    except HostError as error:
        warn(f"the previous SNAT ports stay reserved until the next load or unload: {error}")
        return
    state.set_reserved(spans(keep))


def _ours(state: StateDir) -> Ports:
    return frozenset(port for low, high in state.reserved() for port in range(low, high + 1))


def _read() -> Ports:
    found: set[int] = set()
    try:
        text = RESERVED.read_text()
    except OSError as error:
        raise _cannot(error) from error
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low:
            found.update(range(int(low), int(high or low) + 1))
    return frozenset(found)


def _write(ports: Ports) -> None:
    text = ",".join(f"{low}-{high}" if high > low else str(low) for low, high in spans(ports))
    try:
        RESERVED.write_text(f"{text}\n")
    except OSError as error:
        raise _cannot(error) from error


def _cannot(error: OSError) -> HostError:
    return HostError(
        f"cannot reserve the SNAT ports: {RESERVED}: {error.strerror}",
        "make that file writable, or load without --masquerade",
    )


def spans(ports: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as ranges (first, last), in order."""
    found: list[tuple[int, int]] = []
    for port in sorted(ports):
        if found and found[-1][1] == port - 1:
            found[-1] = found[-1][0], port
        else:
            found.append((port, port))
    return found


def shown(ports: range) -> str:
    """The range, as on the command line."""
    return f"{ports[0]}-{ports[-1]}"
