# SPDX-License-Identifier: Apache-2.0
"""What the tables of Services must hold: each frontend's choices, and the place of each backend.

`Planner` assigns each endpoint of the frontends its present place, or a free one. It writes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, count
from operator import not_

from policyc.runtime.devices.uplinks import ReturnPath
from policyc.runtime.errors import InputError
from policyc.runtime.maps.services import (
    DSR,
    LOCAL,
    NO_NEW,
    NODE_PORT,
    OTHER_NODES,
    TUNNEL,
    BackendFormat,
    Capacities,
    FrontendFormat,
)
from policyc.runtime.services.maglev import Tables
from policyc.runtime.services.services import (
    PROTOCOLS,
    Backend,
    Frontend,
)
from policyc.runtime.services.source_ranges import Lists

WAYS: Mapping[ReturnPath | None, int] = {None: 0, "tunnel": TUNNEL, "dsr": DSR}
"""The return path in a backend's state."""

_NO_NODES: Mapping[str, int] = {}

Identity = bytes
"""The content of a backend's entry, without its id and its state."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted contents of the tables. `new` are places whose entries are not written yet."""

    backends: dict[int, bytes]
    """Place -> entry."""
    new: tuple[int, ...]
    frontends: dict[Frontend, bytes]
    """Frontend -> struct pc_frontend."""
    choices: tuple[int, ...]
    lists: Lists
    tables: Tables


class TableFullError(InputError):
    """The tables cannot hold everything, with the entries that must stay until the change is done."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans tables in the formats of the hooks, within the capacities of their maps.

    `nodes` has the numbers of the cluster's nodes by name (load/cluster_nodes.py).
    """

    frontend: FrontendFormat
    backend: BackendFormat
    capacities: Capacities
    nodes: Mapping[str, int] = field(default_factory=lambda: _NO_NODES)

    def wanted(self, frontends: Iterable[Frontend], there: bytes) -> Wanted:
        """The wanted contents; `there` are the present backends, by place.

        Raises `TableFullError` if a table cannot hold it.
        """
        places = {self.backend.identity(entry): place for place, entry in self.backend.used(there)}
        lasts = self.backend.last_ids(there)
        unused = _unused(self.backend.ids(there), lasts)
        backends: dict[int, bytes] = {}
        new: list[int] = []
        choices: list[int] = []
        values: dict[Frontend, bytes] = {}
        lists, tables = Lists(), Tables(self.capacities.maglev)
        for frontend in frontends:
            first, local = len(choices), list[int]()
            for each in frontend.backends:
                entry = self.entry_of(frontend, each)
                place = places.get(self.backend.identity(entry), -1)
                if place < 0 and not (each.takes_new or each.takes_local):
                    continue  # no packet was or will be sent there
                if place < 0:
                    place = next(unused, -1)
                    if place < 0:
                        raise _too_many("endpoints of Services", self.capacities.backends)
                    new.append(place)
                    backends[place] = self.backend.with_next_id(entry, place, lasts[place])
                else:
                    backends[place] = entry
                if each.takes_new:
                    choices.append(place)
                if each.takes_local:
                    local.append(place)
            slots = frontend.maglev_slots
            values[frontend] = self.value_of(
                frontend,
                (first, len(choices) - first, len(local)),
                lists.of(frontend.ranges),
                tables.of((b.name for b in frontend.backends if b.takes_new), slots),
                tables.of((b.name for b in frontend.backends if b.takes_local), slots),
            )
            choices += local
        found = Wanted(backends, tuple(new), values, tuple(choices), lists, tables)
        self._require_capacity(found)
        return found

    def _require_capacity(self, found: Wanted) -> None:
        limits = self.capacities
        for what, used, limit in (
            ("addresses and ports of Services", len(found.frontends), limits.frontends),
            ("endpoints of Services", len(found.choices), limits.choices),
            ("source ranges of load balancers", found.lists.n_ranges, limits.ranges),
        ):
            if used > limit:
                raise _too_many(what, limit)

    def without_new_endpoints(
        self, frontends: Iterable[Frontend], there: bytes
    ) -> Iterator[Frontend]:
        """The frontends, with only those endpoints that already have an entry in `there`."""
        known = {self.backend.identity(entry) for _, entry in self.backend.used(there)}
        for each in frontends:
            backends = tuple(
                b for b in each.backends if self.backend.identity(self.entry_of(each, b)) in known
            )
            yield replace(each, backends=backends)

    def key_of(self, frontend: Frontend, buffer: int) -> bytes:
        """The frontend's key in a buffer."""
        protocol = PROTOCOLS[frontend.protocol]
        return self.frontend.key_of(frontend.address, protocol, frontend.port, buffer)

    def value_of(
        self,
        frontend: Frontend,
        pools: tuple[int, int, int],
        ranges: int = 0,
        table: int = 0,
        local: int = 0,
    ) -> bytes:
        """The frontend's value.

        `pools` has the first index of its choices, the size of the pool of all endpoints, and the size
        of the local pool. The other arguments are numbers of a list and of Maglev tables.
        """
        first, count, n_local = pools
        flags = LOCAL * frontend.is_local | OTHER_NODES * frontend.has_other_nodes
        flags |= NODE_PORT * frontend.is_node_port
        return self.frontend.value_of(
            first=first,
            count=count,
            local_first=first + count,
            local_count=n_local,
            flags=flags,
            affinity=frontend.affinity,
            service=frontend.number,
            ranges=ranges,
            slots=frontend.maglev_slots,
            table=table,
            local_table=local,
        )

    def entry_of(self, frontend: Frontend, backend: Backend) -> bytes:
        """The backend's entry, without an id."""
        goes_on = backend.takes_new or backend.takes_local or backend.serves
        return self.backend.entry(
            (backend.address, backend.port),
            (frontend.address, frontend.port),
            PROTOCOLS[frontend.protocol],
            (0 if goes_on else NO_NEW) | WAYS[frontend.return_path],
            self.nodes.get(backend.node, 0),
        )


def way_of(state: int) -> ReturnPath | None:
    """The return path that a backend's state sets; None: the node's default."""
    return next((way for way, bits in WAYS.items() if bits and state & bits), None)


def _too_many(what: str, limit: int) -> InputError:
    return TableFullError(
        f"the limit of {limit} {what} is exceeded",
        "removed endpoints count until the next update is complete: first apply the change without "
        "the new ones",
    )


def _unused(ids: Sequence[int], lasts: Sequence[int]) -> Iterator[int]:
    """The free places, oldest last id first; sorted when the first one is requested."""
    yield from sorted(compress(count(), map(not_, ids)), key=lasts.__getitem__)
