# SPDX-License-Identifier: Apache-2.0
"""A host address, as the node's input files hold it."""

import ipaddress

from policyc.runtime.bundle.json_value import JsonValue

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def host_address(value: JsonValue, why_not: str) -> Address:
    """The address; `InputError` if it is none, or no host's.

    `why_not` adds the reason to the message.
    """
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
    """The bytes of struct pc_addr6: IPv4 in the first word."""
    return address.packed.ljust(16, b"\0")


def unpacked(raw: bytes, family: int) -> Address:
    """The inverse of `packed`."""
    return ipaddress.ip_address(raw[:4] if family == 4 else raw)
