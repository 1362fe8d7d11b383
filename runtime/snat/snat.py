# SPDX-License-Identifier: Apache-2.0
"""SNAT: pods that leave the cluster under the node's address. Writes the maps of snat_map.h.

    wanted = read_options(...)               the options of `node load --masquerade`
    plan = Masquerading(pins, wanted, ...)   the node's address at each uplink
    plan.write(undo)                         before the switch
    plan.forget_others()                     after it

reserved_ports.py keeps the node's own sockets off the SNAT ports.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from policyc.runtime.bundle.address_value import Address, Network
from policyc.runtime.errors import InputError
from policyc.runtime.kernel import rtnetlink
from policyc.runtime.kernel.pins import Pins
from policyc.runtime.maps.pinned_map import PRESENT
from policyc.runtime.maps.snat import SnatExceptions, SnatSettings
from policyc.runtime.state import LoadedMasquerade, Warn
from policyc.runtime.undo import Undo

DEFAULT_PORTS = "49152-65535"
"""The unassigned ports of RFC 6335, 6. The kernel keeps 32768 to 49151 for the node."""
LOWEST_PORT = 1024
_EVERYWHERE = 0  # RT_SCOPE_UNIVERSE of <linux/rtnetlink.h>
_SECONDARY, _DEPRECATED, _TENTATIVE = 0x01, 0x20, 0x40  # IFA_F_* of <linux/if_addr.h>


@dataclass(frozen=True, slots=True)
class Masquerade:
    """The SNAT options of a load."""

    ports: range
    """The ports by which pods leave, and that no socket of the node gets."""
    excepted: tuple[Network, ...] = ()
    """Networks that pods reach under their own address."""


def read_options(
    is_wanted: bool, ports: str | None, excepted: Sequence[str], uplinks: Sequence[str]
) -> Masquerade | None:
    """Parse the command line's options; None if pods keep their address.

    `InputError` if they are invalid.
    """
    if not is_wanted:
        if ports is not None or excepted:
            option = "--masquerade-except" if excepted else "--masquerade-ports"
            raise InputError(f"{option} needs --masquerade", "add --masquerade")
        return None
    if not uplinks:
        raise InputError(
            "--masquerade needs the device by which pods leave the cluster",
            "name it with --uplink; `ip route` shows the device",
        )
    networks = tuple(dict.fromkeys(map(_network, excepted)))
    return Masquerade(_ports(DEFAULT_PORTS if ports is None else ports), networks)


def _ports(text: str) -> range:
    found = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text)
    low, high = (int(found[1]), int(found[2])) if found else (0, 0)
    if not LOWEST_PORT <= low <= high <= 65535:
        raise InputError(
            f"--masquerade-ports {text}: expected LOW-HIGH, {LOWEST_PORT} to 65535",
            f"the default is {DEFAULT_PORTS}",
        )
    return range(low, high + 1)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(
            f"--masquerade-except {text}: {error}", "expected a network, as 10.0.0.0/8 or fd00::/8"
        ) from error


class Masquerading:
    """The options, with the node's address at each uplink."""

    def __init__(
        self,
        pins: Pins,
        wanted: Masquerade | None,
        uplinks: Mapping[str, int],
        own: Sequence[Address],
    ) -> None:
        """`own` are the node's addresses in the endpoints file; `uplinks` has ifindexes by name."""
        self._pins = pins
        self._wanted = wanted
        self._uplinks = uplinks if wanted else {}
        self._addresses = {
            name: addresses(at, own, "--masquerade") for name, at in self._uplinks.items()
        }

    def note_gaps(self, note: Warn) -> None:
        """Tell about uplinks by which pods cannot leave."""
        for name, found in self._addresses.items():
            for family in {4, 6} - found.keys():
                note(
                    f"--masquerade: SNAT is off for IPv{family} at {name}: neither the device nor "
                    f"the node in the endpoints file has such an address"
                )

    @property
    def on_record(self) -> LoadedMasquerade | None:
        """The record for `node status` and the next command."""
        if self._wanted is None:
            return None
        at = {
            name: tuple(str(found[family]) for family in sorted(found))
            for name, found in self._addresses.items()
        }
        ports = self._wanted.ports
        return LoadedMasquerade(ports[0], ports[-1], tuple(map(str, self._wanted.excepted)), at)

    def write(self, undo: Undo) -> None:
        """Write the maps. Previous exceptions stay until `forget_others`."""
        excepted = self._wanted.excepted if self._wanted else ()
        with SnatExceptions(self._pins) as exceptions:
            keys = set(map(exceptions.key_of, excepted))
            most = exceptions.max_entries
            if len(keys.union(exceptions.all_keys())) > most:
                raise InputError(
                    f"{len(keys)} networks of --masquerade-except (with those of the previous load) "
                    f"exceed the limit of {most}"
                )
            for key in keys:
                exceptions.replace(key, PRESENT, undo)
        if self._wanted is None:
            return  # the word says so; packets of the previous word use the old contents
        at = {ifindex: self._addresses[name] for name, ifindex in self._uplinks.items()}
        with SnatSettings(self._pins) as settings:
            settings.set(settings.value_of(self._wanted.ports, at), undo)

    def forget_others(self) -> None:
        """Remove exceptions of the previous load that this load does not have."""
        excepted = self._wanted.excepted if self._wanted else ()
        with SnatExceptions(self._pins) as exceptions:
            for key in set(exceptions.all_keys()) - set(map(exceptions.key_of, excepted)):
                exceptions.delete(key)


def listed_addresses(ifindex: int, own: Sequence[Address], purpose: str) -> dict[int, Address]:
    """Those of `addresses` that are in `own`: other nodes know only them as this node's."""
    found = addresses(ifindex, own, purpose)
    return {family: address for family, address in found.items() if address in own}


def addresses(ifindex: int, own: Sequence[Address], purpose: str) -> dict[int, Address]:
    """The node's address at a device, by family: preferably one in `own`, then a permanent one.

    If the device has none, as a port of a bridge, it is the first of `own`. `purpose` is what needs it,
    for errors.
    """
    ranked: dict[int, list[tuple[bool, int, Address]]] = {4: [], 6: []}
    with rtnetlink.connection(purpose) as netlink:
        for each in rtnetlink.dump(netlink.get_addr):
            if each["index"] != ifindex or each["scope"] != _EVERYWHERE:
                continue
            flags = int(each.get_attr("IFA_FLAGS") or each["flags"])
            text = each.get_attr("IFA_LOCAL") or each.get_attr("IFA_ADDRESS")
            found = ipaddress.ip_address(text)
            if not flags & _TENTATIVE:
                rank = flags & (_SECONDARY | _DEPRECATED)
                ranked[found.version].append((found not in own, rank, found))
    best = {family: min(there)[2] for family, there in ranked.items() if there}
    for each in own:
        best.setdefault(each.version, each)
    return best
