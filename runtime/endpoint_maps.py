# SPDX-License-Identifier: Apache-2.0
"""Which pods there are, as the hooks read it: pc_ep4, pc_ep6, pc_if. Every write can be undone."""

import ipaddress
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from policyc.runtime import bpf_syscall
from policyc.runtime.btf import StructLayout
from policyc.runtime.pins import Pins
from policyc.runtime.state import LoadedEndpoint
from policyc.runtime.undo import Undo

Element = tuple[str, bytes]  # map and key
NODE_FLAG = 1
"""PC_ENDPOINT_NODE of datapath/flow.h."""
_KEY_SIZES = {"pc_ep4": 4, "pc_ep6": 16, "pc_if": 4}


def elements(endpoint: LoadedEndpoint) -> list[Element]:
    """Where the endpoint stands."""
    addresses = map(ipaddress.ip_address, endpoint.addresses)
    found = [(f"pc_ep{address.version}", address.packed) for address in addresses]
    if endpoint.ifindex:
        found.append(("pc_if", struct.pack("=I", endpoint.ifindex)))
    return found


def present(pins: Pins) -> set[Element]:
    """Every element that the maps hold."""
    found: set[Element] = set()
    for name, size in _KEY_SIZES.items():
        with bpf_syscall.obj_get(pins.map(name)) as fd:
            found.update((name, key) for key in bpf_syscall.map_keys(fd, size))
    return found


def ids(pins: Pins, layout: StructLayout) -> set[int]:
    """The endpoint ids that the maps hold, whoever put them there."""
    found: set[int] = set()
    for name, key in present(pins):
        with bpf_syscall.obj_get(pins.map(name)) as fd:
            value = bpf_syscall.map_lookup(fd, key, layout.size)
        if value is not None:
            found.add(int.from_bytes(layout.unpack(value)["id"], sys.byteorder))
    return found


def write(
    pins: Pins, endpoints: Iterable[LoadedEndpoint], layout: StructLayout, undo: Undo
) -> None:
    """Set every endpoint; `undo` puts back what was there."""
    for endpoint in endpoints:
        value = layout.pack(
            id=endpoint.id,
            ifindex=endpoint.ifindex,
            mac=bytes.fromhex(endpoint.mac.replace(":", "")) or bytes(6),
            flags=NODE_FLAG if endpoint.is_node else 0,
        )
        for name, key in elements(endpoint):
            with bpf_syscall.obj_get(pins.map(name)) as fd:
                before = bpf_syscall.map_lookup(fd, key, layout.size)
                if before == value:
                    continue
                bpf_syscall.map_update(fd, key, value)
            undo.by(_put_back, pins.map(name), key, before)


def remove(pins: Pins, gone: Iterable[Element]) -> None:
    """Remove elements that no endpoint has any more."""
    for name, key in gone:
        with bpf_syscall.obj_get(pins.map(name)) as fd:
            bpf_syscall.map_delete(fd, key)


def _put_back(pin: Path, key: bytes, before: bytes | None) -> None:
    with bpf_syscall.obj_get(pin) as fd:
        if before is None:
            bpf_syscall.map_delete(fd, key)
        else:
            bpf_syscall.map_update(fd, key, before)
