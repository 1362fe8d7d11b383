# SPDX-License-Identifier: Apache-2.0
"""Puts the cluster's nodes into the maps of datapath/external_map.h, and how answers go back.

Every address of a node has a number: connections and rows of Services name it by that, so it stays from
load to load. `Nodes` is written before the switch; what went is forgotten after it.
"""

from collections.abc import Collection, Mapping, Sequence

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.devices.uplinks import Outside
from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    NodeRecord,
)
from policyc.runtime.errors import InputError
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.nodes import ExternalSettings, NodeNumbers, Vteps
from policyc.runtime.undo import Undo

_WAYS: Mapping[Outside, tuple[int, int]] = {
    "tunnel": (0, 0),
    "dsr": (1, 1),
    "dsr-l2": (1, 2),
    "dsr-vxlan": (1, 0),
}
"""enum pc_return_path and enum pc_by_link of datapath/external_map.h."""


class Nodes:
    """The nodes of an endpoints file, and the number of each of their addresses."""

    def __init__(self, pins: Pins, file: EndpointsFile) -> None:
        self._pins = pins
        self._own = next((each for each in file.nodes if each.name == file.node), None)
        self._others = [each for each in file.nodes if each.name != file.node and each.addresses]
        with NodeNumbers(pins) as numbers:
            self._there = numbers.numbers()
            self._numbers = self._numbered(numbers)

    def _numbered(self, numbers: NodeNumbers) -> dict[Address, int]:
        most = numbers.max_entries  # addresses of the load before count until this one is over
        taken = set(self._there.values())
        free = (number for number in range(1, most) if number not in taken)
        found = dict.fromkeys(self.own, 0)
        for node in self._others:
            for address in node.addresses:
                found[address] = self._there.get(numbers.key_of(address), 0) or next(free, 0)
                if not found[address]:
                    raise InputError(
                        f"the endpoints file exceeds the limit of {most - 1} node addresses",
                        "removed nodes count until the next load is complete: first load without the "
                        "new ones",
                    )
        return found

    @property
    def by_name(self) -> dict[str, int]:
        """The number of each other node in entries of `pc_backends`, by name."""
        return {each.name: self._numbers[_vtep(each)] for each in self._others}

    @property
    def own(self) -> Sequence[Address]:
        """The addresses of this node."""
        return self._own.addresses if self._own else ()

    @property
    def outer_family(self) -> int:
        """The larger of the outer headers that are needed: 6 if some node has IPv6 alone."""
        return max((_vtep(each).version for each in self._others), default=4)

    def has_others(self) -> bool:
        """Whether the cluster has other nodes."""
        return bool(self._others)

    def write(self, undo: Undo) -> None:
        """Add the nodes; those of the previous load stay until `forget_others`."""
        with Vteps(self._pins) as vteps:
            for node in self._others:
                vtep = _vtep(node)
                for address in node.addresses:
                    value = vteps.value_of(address, vtep, self._numbers[vtep])
                    vteps.replace(vteps.number_key(self._numbers[address]), value, undo)
        with NodeNumbers(self._pins) as numbers:
            for address, number in self._numbers.items():
                numbers.replace(numbers.key_of(address), numbers.number_value(number), undo)

    def configure(
        self,
        *,
        tunnel: int,
        uplinks: Mapping[int, Address | None],
        fast_path: Collection[int],
        outside: Outside,
        marks: int,
        host_nat: bool,
        undo: Undo,
    ) -> None:
        """Write this node's tunnel device (0: none), paths of external clients, uplinks, routing marks.

        `uplinks` has ifindex -> this node's IPv4 address there, the source of encapsulated packets.
        Packets of pods may take the fast path by the uplinks `fast_path`. A connection that the
        host marks with one of `marks` takes the stack path; with `host_nat`, so does one of an external
        client to a Service.
        """
        with ExternalSettings(self._pins) as settings:
            most = settings.most_uplinks
            if len(uplinks) > most:
                raise InputError(f"{len(uplinks)} uplinks exceed the limit of {most}")
            paths = places(settings.fast_path_uplinks(), fast_path)
            value = settings.value_of(
                tunnel,
                *_WAYS[outside],
                [*uplinks],
                [*uplinks.values()],
                paths,
                self.own,
                marks,
                host_nat,
            )
            settings.set(value, undo)

    def forget_others(self) -> None:
        """Forget the nodes that are not in the file: nothing is accepted from them, or sent there."""
        with NodeNumbers(self._pins) as numbers:
            there = numbers.numbers()
            for key in there.keys() - set(map(numbers.key_of, self._numbers)):
                numbers.delete(key)
        with Vteps(self._pins) as vteps:
            for number in set(there.values()) - set(self._numbers.values()):
                vteps.put(vteps.number_key(number), vteps.unused)


def places(before: Sequence[int], devices: Collection[int]) -> list[int]:
    """Each device at its previous index, which conntrack entries store; new devices at free indices.

    An index that this load frees is the last choice: for a second, entries that store it may still
    have a neighbour of the device that it had.
    """
    found = [each if each in devices else 0 for each in before]
    free = sorted((at for at, each in enumerate(found) if not each), key=lambda at: before[at] != 0)
    new = sorted(set(devices) - set(found))
    for at, device in zip(free, new, strict=False):
        found[at] = device
    return found


def _vtep(node: NodeRecord) -> Address:
    """The node's VTEP: its first IPv4 address if it has one, as that header is smaller."""
    return next((each for each in node.addresses if each.version == 4), node.addresses[0])
