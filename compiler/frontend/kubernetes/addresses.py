# SPDX-License-Identifier: Apache-2.0
"""Addresses and CIDRs as Kubernetes reads them: Go's lenient parser, and the deviations it accepted.

`ParseCIDRSloppy` accepts leading zeros (as decimal), IPv4-mapped IPv6 and host bits. The validation of
1.36 then rejects these three, and older servers warn (semantics A14).
"""

import re
from functools import lru_cache
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
)

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Network
from policyc.ir.universe import Address

_DECIMAL = re.compile(r"[0-9]{1,10}")
_MAPPED_BITS = 96
"""The offset of the IPv4 address inside an IPv4-mapped IPv6 one."""


@dataclass(frozen=True, slots=True)
class Cidr:
    """A CIDR that parses; the flags say what a strict reader rejects, or would write differently."""

    network: Network
    address: Address
    has_leading_zeros: bool = False
    is_mapped: bool = False
    has_host_bits: bool = False
    is_canonical: bool = True


def parse_address(text: str) -> Address | None:
    """An address in the form Kubernetes writes it; None for anything else, zones included."""
    return _ipv6(text) if ":" in text else _strict_ipv4(text)


@lru_cache(maxsize=65536)
def parse_cidr(text: str) -> Cidr | None:
    """The CIDR, or None if `net.ParseCIDR` would fail."""
    address_text, slash, length_text = text.partition("/")
    if not slash or not _DECIMAL.fullmatch(length_text):
        return None
    address = _ipv6(address_text) if ":" in address_text else _sloppy_ipv4(address_text)
    length = int(length_text)
    if address is None or length > address.max_prefixlen:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return _mapped(address.ipv4_mapped, length)
    network = _network(address, length)
    zeros = length_text != str(length) or (address.version == 4 and address_text != str(address))
    return Cidr(
        network,
        address,
        has_leading_zeros=zeros,
        has_host_bits=network.network_address != address,
        is_canonical=address.version == 4 or text == f"{address}/{length}",
    )


def _mapped(address: IPv4Address, length: int) -> Cidr | None:
    """An IPv4-mapped CIDR as IPv4; a prefix shorter than /96 is of neither family, and refused."""
    if length < _MAPPED_BITS:
        return None
    network = IPv4Network((int(address), length - _MAPPED_BITS), strict=False)
    has_host_bits = network.network_address != address
    return Cidr(network, address, is_mapped=True, has_host_bits=has_host_bits)


def _network(address: Address, length: int) -> Network:
    if isinstance(address, IPv4Address):
        return IPv4Network((int(address), length), strict=False)
    return IPv6Network((int(address), length), strict=False)


def _strict_ipv4(text: str) -> IPv4Address | None:
    address = _sloppy_ipv4(text)
    return address if address is not None and str(address) == text else None


def _sloppy_ipv4(text: str) -> IPv4Address | None:
    """Dotted decimal, with meaningless leading zeros."""
    parts = text.split(".")
    if len(parts) != 4 or not all(_DECIMAL.fullmatch(part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return IPv4Address(bytes(numbers)) if max(numbers) <= 255 else None


def _ipv6(text: str) -> IPv6Address | None:
    if "%" in text or not text.isascii():
        return None
    try:
        return IPv6Address(text)
    except AddressValueError:
        return None
