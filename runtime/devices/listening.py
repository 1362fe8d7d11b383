# SPDX-License-Identifier: Apache-2.0
"""The addresses of this network namespace, and the sockets that receive packets there, from /proc.

These are listening sockets of TCP and SCTP, and unconnected sockets of UDP. A socket at :: counts as
having the port in both families: /proc does not show which ones are for IPv6 only.
"""

import ipaddress
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.errors import HostError

PROC = Path("/proc/thread-self/net")
_LISTENS, _UNCONNECTED = "0A", "07"
_SCTP_LISTENS = "10"


@dataclass(frozen=True, slots=True)
class Sockets:
    """The addresses where a socket listens, by protocol and port."""

    found: frozenset[tuple[str, int, Address]] = frozenset()

    def has(self, address: Address, protocol: str, port: int) -> bool:
        """Whether a packet to that address and port has a socket."""
        wildcards = _ANY if address.version == 4 else _ANY[1:]
        return any((protocol, port, each) in self.found for each in (address, *wildcards))


_ANY: tuple[Address, ...] = (ipaddress.IPv4Address(0), ipaddress.IPv6Address(0))


def sockets(proc: Path = PROC) -> Sockets:
    """The sockets that exist now."""
    return Sockets(frozenset(_sockets(proc)))


def addresses(proc: Path = PROC) -> frozenset[Address]:
    """All addresses of the namespace's devices, of any scope."""
    return frozenset((*_addresses4(proc), *_addresses6(proc)))


def _addresses4(proc: Path) -> Iterator[Address]:
    """From the table of local routes: a line with the address precedes a line that marks it as local."""
    last = ""
    for fields in _lines(proc / "fib_trie"):
        if fields[0] == "|--":
            last = fields[1]
        elif fields[:3] == ["/32", "host", "LOCAL"]:
            yield ipaddress.IPv4Address(last)


def _addresses6(proc: Path) -> Iterator[Address]:
    for fields in _lines(proc / "if_inet6", header=False):
        yield ipaddress.IPv6Address(bytes.fromhex(fields[0]))


def _sockets(proc: Path) -> Iterator[tuple[str, int, Address]]:
    for name in ("tcp", "tcp6"):
        for fields in _lines(proc / name):
            if fields[3] != _LISTENS:
                break  # the kernel lists listening sockets first
            yield "TCP", *_end(fields[1])
    for name in ("udp", "udp6"):
        for fields in _lines(proc / name):
            if fields[3] == _UNCONNECTED:
                yield "UDP", *_end(fields[1])
    for fields in _lines(proc / "sctp" / "eps"):
        if fields[3] == _SCTP_LISTENS:
            for address in fields[8:]:
                yield "SCTP", int(fields[5]), ipaddress.ip_address(address)


def _lines(path: Path, header: bool = True) -> Iterator[list[str]]:
    """The fields of each line, without the header; none if the kernel lacks the protocol."""
    try:
        with path.open() as lines:
            if header:
                next(lines, None)
            yield from map(str.split, lines)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError(f"{path}: cannot be read: {error.strerror}") from error


def _end(text: str) -> tuple[int, Address]:
    """Port and address from ADDRESS:PORT, where the address is words in this machine's byte order."""
    words, port = text.split(":")
    raw = b"".join(
        int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8)
    )
    address = ipaddress.ip_address(raw)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return int(port, 16), mapped or address
