# SPDX-License-Identifier: Apache-2.0
"""Puts the cluster's nodes into the maps of datapath/outside_map.h, and how answers go back.

Every address of a node has a number: connections and rows of Services name it by that, so it stays from
load to load. `Nodes` is written before the switch; what went is forgotten after it.
"""

import struct
from collections.abc import Collection, Iterator, Mapping, Sequence

from policyc.runtime.bundle.address_value import (
    Address,
    packed,
)
from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    NodeRecord,
)
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.undo import Undo

NUMBERS, ENDS, CONFIG = "pc_node_nums", "pc_node_ends", "pc_outside"
MOST = 16384
"""PC_NODES_MOST; those of the load before count until it is over."""
_KEY = struct.Struct("=16sI")  # struct pc_node_key
_END = struct.Struct("=16s16sII")  # struct pc_node_end
_NUMBER = struct.Struct("=I")
_UPLINKS = 8  # PC_UPLINKS
_CONFIG = struct.Struct(f"=II{2 * _UPLINKS}I16s16sI")  # struct pc_outside
_NOBODY = bytes(16)
_WAYS: Mapping[ReturnPath, int] = {"tunnel": 0, "dsr": 1}  # enum pc_way_back


class Nodes:
    """The nodes of an endpoints file, with numbers that are not given away yet where they are new."""

    def __init__(self, pins: Pins, file: EndpointsFile) -> None:
        self._pins = pins
        self._own = next((each for each in file.nodes if each.name == file.node), None)
        self._others = [each for each in file.nodes if each.name != file.node and each.addresses]
        self._there = _there(pins)
        self._numbers = self._numbered()

    def _numbered(self) -> dict[bytes, int]:
        taken = set(self._there.values())
        free = (number for number in range(1, MOST) if number not in taken)
        found = {_key(each): 0 for each in (self._own.addresses if self._own else ())}
        for node in self._others:
            for address in node.addresses:
                key = _key(address)
                found[key] = self._there.get(key, 0) or next(free, 0)
                if not found[key]:
                    raise InputError(
                        f"the endpoints file exceeds the limit of {MOST - 1} node addresses",
                        "removed nodes count until the next load is complete: first load without the "
                        "new ones",
                    )
        return found

    @property
    def by_name(self) -> dict[str, int]:
        """The number by which rows of Services name each other node."""
        return {each.name: self._numbers[_key(_end(each))] for each in self._others}

    @property
    def outer_family(self) -> int:
        """The larger of the outer headers that are needed: 6 if some node has IPv6 alone."""
        return max((_end(each).version for each in self._others), default=4)

    def has_others(self) -> bool:
        """Whether there is anybody to hand over to."""
        return bool(self._others)

    def write(self, undo: Undo) -> None:
        """Add them; those of the load before stay until `forget_others`."""
        with bpf_syscall.obj_get(self._pins.map(ENDS)) as fd:
            for number, end in self._ends():
                was = bpf_syscall.map_lookup(fd, _NUMBER.pack(number), _END.size)
                if was != end:
                    undo.by(_set, self._pins, ENDS, number, was or bytes(_END.size))
                    bpf_syscall.map_update(fd, _NUMBER.pack(number), end)
        with bpf_syscall.obj_get(self._pins.map(NUMBERS)) as fd:
            for key, number in self._numbers.items():
                if self._there.get(key) != number:
                    undo.by(_put_back, self._pins, key, self._there.get(key))
                    bpf_syscall.map_update(fd, key, _NUMBER.pack(number))

    def _ends(self) -> Iterator[tuple[int, bytes]]:
        for node in self._others:
            end = _end(node)
            about = packed(end), end.version, self._numbers[_key(end)]
            for address in node.addresses:
                yield self._numbers[_key(address)], _END.pack(packed(address), *about)

    def configure(
        self,
        tunnel: int,
        uplinks: Sequence[int],
        past_stack: Collection[int],
        return_path: ReturnPath,
        undo: Undo,
        marks: int = 0,
    ) -> None:
        """Where packets are handed over (an ifindex; 0 for nowhere), and how answers go back.

        `past_stack` are the uplinks by which pods' packets may leave past the host's stack, but for
        those of connections to which the host gives one of `marks`.
        """
        if len(uplinks) > _UPLINKS:
            raise InputError(f"{len(uplinks)} uplinks exceed the limit of {_UPLINKS}")
        devices = [*uplinks, *[0] * (_UPLINKS - len(uplinks))]
        own = self._own.addresses if self._own else ()
        at = {address.version: packed(address) for address in reversed(own)}
        with bpf_syscall.obj_get(self._pins.map(CONFIG)) as fd:
            was = bpf_syscall.map_lookup(fd, _NUMBER.pack(0), _CONFIG.size) or bytes(_CONFIG.size)
            places = _places(_CONFIG.unpack(was)[2 + _UPLINKS : 2 + 2 * _UPLINKS], past_stack)
            value = _CONFIG.pack(
                *(tunnel, _WAYS[return_path], *devices, *places),
                *(at.get(4, _NOBODY), at.get(6, _NOBODY), marks),
            )
            undo.by(_set, self._pins, CONFIG, 0, was)
            bpf_syscall.map_update(fd, _NUMBER.pack(0), value)

    def forget_others(self) -> None:
        """Nobody is believed any more for nodes that are not in the file, and nothing goes there."""
        there = _there(self._pins)
        with bpf_syscall.obj_get(self._pins.map(NUMBERS)) as fd:
            for key in there.keys() - self._numbers.keys():
                bpf_syscall.map_delete(fd, key)
        for number in set(there.values()) - set(self._numbers.values()):
            _set(self._pins, ENDS, number, bytes(_END.size))


def _places(before: Sequence[int], devices: Collection[int]) -> list[int]:
    """Each device where it was, as connections name it by that; new ones in places that are free."""
    places = [each if each in devices else 0 for each in before]
    for new in sorted(set(devices) - set(places)):
        places[places.index(0)] = new
    return places


def _end(node: NodeRecord) -> Address:
    """Where a node gets what is handed to it: its first IPv4 address, as that header is smaller."""
    return next((each for each in node.addresses if each.version == 4), node.addresses[0])


def _key(address: Address) -> bytes:
    return _KEY.pack(packed(address), address.version)


def _there(pins: Pins) -> dict[bytes, int]:
    with bpf_syscall.obj_get(pins.map(NUMBERS)) as fd:
        keys = list(bpf_syscall.map_keys(fd, _KEY.size))
        found = {key: bpf_syscall.map_lookup(fd, key, _NUMBER.size) for key in keys}
    return {key: _NUMBER.unpack(raw)[0] for key, raw in found.items() if raw}


def _put_back(pins: Pins, key: bytes, number: int | None) -> None:
    with bpf_syscall.obj_get(pins.map(NUMBERS)) as fd:
        if number is None:
            bpf_syscall.map_delete(fd, key)
        else:
            bpf_syscall.map_update(fd, key, _NUMBER.pack(number))


def _set(pins: Pins, name: str, at: int, value: bytes) -> None:
    with bpf_syscall.obj_get(pins.map(name)) as fd:
        bpf_syscall.map_update(fd, _NUMBER.pack(at), value)
