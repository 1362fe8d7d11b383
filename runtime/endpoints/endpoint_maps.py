# SPDX-License-Identifier: Apache-2.0
"""The pods as the hooks find them: by address (double_buffer.py), and by device in pc_if.

Every write can be undone. Lookups by address see all pods of a load at once.
"""

import ipaddress
import secrets
import struct
import sys
from collections.abc import Iterable

from policyc.runtime import switch
from policyc.runtime.endpoints.double_buffer import (
    STATE,
    TABLES,
    DoubleBuffer,
    Word,
)
from policyc.runtime.endpoints.endpoint_tables import (
    CAPACITY,
    ID_MASK,
    LOCAL,
    NODE,
    Buffer,
    TableFullError,
    laid_out,
)
from policyc.runtime.endpoints.local_devices import NO_DEVICE
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.layout import StructLayout
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.endpoint_devices import EndpointDevices
from policyc.runtime.state import LoadedEndpoint
from policyc.runtime.undo import Undo

Element = tuple[str, bytes]  # table and key
Held = dict[Element, bytes]
"""The entries, each with its struct pc_endpoint."""
NODE_FLAG = 1
"""PC_ENDPOINT_NODE of datapath/flow.h."""
PEER_FLAG = 2
"""PC_ENDPOINT_PEER."""
NETNS_SHIFT = 3
"""PC_ENDPOINT_NETNS_SHIFT."""
DEVICES = EndpointDevices.NAME
NETNS_ROOM = (1 << 16 - NETNS_SHIFT) - 1
HOST_FLAG = 4
"""PC_ENDPOINT_HOST."""
SEEDS = 8
"""How many seeds are tried before an error says that some addresses have no place."""


def elements(endpoint: LoadedEndpoint) -> list[Element]:
    """The table entries of an endpoint."""
    addresses = map(ipaddress.ip_address, endpoint.addresses)
    found = [(f"pc_ep{address.version}", address.packed) for address in addresses]
    if endpoint.ifindex:
        found.append((DEVICES, endpoint.ifindex.to_bytes(4, sys.byteorder)))
    return found


def present(pins: Pins, layout: StructLayout) -> Held:
    """Every entry that the hooks find."""
    return _by_address(pins, layout) | _by_device(pins)


def ids(pins: Pins, layout: StructLayout) -> set[int]:
    """The endpoint ids in the maps, from any load."""
    return {layout.number(value, "id") for value in present(pins, layout).values()}


def n_addresses(pins: Pins, name: str) -> int:
    """How many addresses a table has."""
    with DoubleBuffer(pins.maps) as buffers:
        return len(buffers.who(name))


def held_of(endpoints: Iterable[LoadedEndpoint], layout: StructLayout) -> Held:
    """The entries that the hooks must find for these endpoints."""
    wanted: Held = {}
    for endpoint in endpoints:
        value = layout.pack(
            id=endpoint.id,
            ifindex=NO_DEVICE if endpoint.is_missing else endpoint.ifindex,
            mac=bytes.fromhex(endpoint.mac.replace(":", "")) or bytes(6),
            flags=NODE_FLAG * endpoint.is_node
            | PEER_FLAG * endpoint.has_peer
            | HOST_FLAG * endpoint.is_host
            | _netns_flags(endpoint.netns),
        )
        wanted |= dict.fromkeys(elements(endpoint), value)
    return wanted


def _netns_flags(netns: int | None) -> int:
    """The flag bits of a namespace id.

    An id that does not fit counts as unknown: no sockets are looked up.
    """
    return 0 if netns is None or netns >= NETNS_ROOM else (netns + 1) << NETNS_SHIFT


def write(
    pins: Pins, endpoints: Iterable[LoadedEndpoint], layout: StructLayout, undo: Undo
) -> None:
    """Set every endpoint, beside the existing ones; `undo` restores the previous entries."""
    wanted = held_of(endpoints, layout)
    addresses = _by_address(pins, layout)
    _replace(pins, addresses, addresses | _without_devices(wanted), layout, undo)
    with EndpointDevices(pins) as devices:
        for (name, key), value in wanted.items():
            if name == DEVICES:
                devices.replace(key, value, undo)


def keep_only(pins: Pins, endpoints: Iterable[LoadedEndpoint], layout: StructLayout) -> None:
    """Remove entries that belong to no endpoint any more."""
    still = {element for endpoint in endpoints for element in elements(endpoint)}
    addresses = _by_address(pins, layout)
    after = {element: value for element, value in addresses.items() if element in still}
    _replace(pins, addresses, after, layout, Undo())
    with EndpointDevices(pins) as devices:
        for key in devices.all_keys():
            if (DEVICES, key) not in still:
                devices.delete(key)


def write_classes(endpoints: tuple[LoadedEndpoint, ...], fields: tuple[str, ...], fd: int) -> None:
    """Write the class of each endpoint into the map of a policy that is not active yet."""
    size = bpf_syscall.map_info(fd).value_size
    keys = b"".join(struct.pack("=I", each.id) for each in endpoints)
    values = b"".join(
        struct.pack(f"<{len(fields)}I", *(each.place[name] for name in fields)).ljust(size, b"\0")
        for each in endpoints
    )
    bpf_syscall.map_update_batch(fd, keys, values, len(endpoints))


def _by_address(pins: Pins, layout: StructLayout) -> Held:
    with DoubleBuffer(pins.maps) as buffers:
        return {
            (name, address.to_bytes(size, "big")): _value(buffers, who, layout)
            for name, size in TABLES.items()
            for address, who in buffers.who(name).items()
        }


def _by_device(pins: Pins) -> Held:
    with EndpointDevices(pins) as devices:
        return {(DEVICES, key): value for key, value in devices.items()}


def _without_devices(held: Held) -> Held:
    return {element: value for element, value in held.items() if element[0] != DEVICES}


def _value(buffers: DoubleBuffer, who: int, layout: StructLayout) -> bytes:
    """The struct pc_endpoint that pc_endpoint_at() gives."""
    if who & LOCAL:
        return buffers.record(who & ID_MASK)
    return layout.pack(id=who & ID_MASK, flags=NODE_FLAG if who & NODE else 0)


def _replace(pins: Pins, before: Held, after: Held, layout: StructLayout, undo: Undo) -> None:
    """Activate a buffer with these addresses, unless the active one already has them.

    The inactive buffer was active until the last change. After the first wait no packet reads it any
    more. The second wait orders the buffer's lines before the word: in a grace period every CPU passes a
    full barrier. On the reading side, the address of each read depends on the word.
    """
    if before == after:
        return
    with DoubleBuffer(pins.maps) as buffers:
        buffer, records = _laid_out(buffers, after, layout)
        switch.wait_for_readers()
        word, was = buffers.fill(buffer, records), buffers.word
        switch.wait_for_readers()
        undo.by(_store, pins, was)
        buffers.store(word)


def _store(pins: Pins, word: Word) -> None:
    with DoubleBuffer(pins.maps) as buffers:
        buffers.store(word)


def _laid_out(buffers: DoubleBuffer, after: Held, layout: StructLayout) -> tuple[Buffer, bytes]:
    """The buffer and its records; `InputError` if there are too many."""
    records: dict[bytes, int] = {}
    who: dict[str, dict[int, int]] = {name: {} for name in TABLES}
    for (name, key), value in after.items():
        who[name][int.from_bytes(key, "big")] = _who(value, records, layout)
    for name, found in who.items():
        _require_room(f"IPv{name[-1]} addresses", len(found), CAPACITY)
    _require_room("pods of this node", len(records), buffers.room(STATE))
    most = buffers.room("pc_ep4"), buffers.room("pc_ep6")
    for _ in range(SEEDS):
        try:
            buffer = laid_out(who["pc_ep4"], who["pc_ep6"], *most, secrets.randbits(32))
        except TableFullError:
            continue
        return buffer, b"".join(records)
    raise HostError(
        "the address tables cannot hold all addresses of pods",
        "load again, or load fewer pods; the current policy stays in force",
    )


def _who(value: bytes, records: dict[bytes, int], layout: StructLayout) -> int:
    """The value beside an address.

    For a local pod, or a node under host policy, it is the number of its record.
    """
    ident, flags = layout.number(value, "id"), layout.number(value, "flags")
    if layout.number(value, "ifindex") or flags & HOST_FLAG:
        return LOCAL | records.setdefault(value, len(records))
    if ident >= ID_MASK:
        raise InputError(f"the bundle has endpoint ids above {ID_MASK - 1}")
    return ident | (NODE if flags & NODE_FLAG else 0)


def _require_room(what: str, count: int, room: int) -> None:
    if count > room:
        raise InputError(
            f"{count} {what} exceed the limit of {room}",
            "removed entries count until a load is complete: first load without the new ones",
        )
