# SPDX-License-Identifier: Apache-2.0
"""An address of a host, as files for the node have it."""

import ipaddress

from policyc.runtime.bundle.json_value import JsonValue

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def host_address(value: JsonValue, why_not: str) -> Address:
    """The address; `InputError` for none, and for one of no host, of which `why_not` tells more."""
    text = value.text()
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        value.fail(f"expected an IPv4 or IPv6 address, found {text!r}")
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        value.fail(f"expected a plain IPv6 address, found {text!r}")
    for kind in ("unspecified", "multicast", "loopback", "link_local"):
        if getattr(address, f"is_{kind}"):
            value.fail(f"{text} is {kind.replace('_', '-')}{why_not}")
    return address


def packed(address: Address) -> bytes:
    """As struct pc_addr6 has it: of IPv4 in the first word."""
    return address.packed.ljust(16, b"\0")


def unpacked(raw: bytes, family: int) -> Address:
    """The other way."""
    return ipaddress.ip_address(raw[:4] if family == 4 else raw)
