# SPDX-License-Identifier: Apache-2.0
"""All Services of a node at once, from files with the API server's objects."""

from collections.abc import Iterable
from dataclasses import dataclass

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import InputError
from policyc.runtime.services.claims import (
    Claims,
    Ranges,
    surroundings,
)
from policyc.runtime.services.limits import (
    Limits,
    asked_of,
)
from policyc.runtime.services.objects import (
    EndpointSlice,
    objects,
)
from policyc.runtime.services.services import (
    Frontend,
    OwnNode,
    note_health,
    note_node_ports,
)
from policyc.runtime.state import Warn, unheard


@dataclass(frozen=True, slots=True)
class Served:
    """The frontends that a node serves, and what it leaves out."""

    frontends: tuple[Frontend, ...]
    """Sorted."""
    left_out: dict[str, int]
    """As `left_out` counts it."""


def left_out(claims: Claims, limits: Limits, n_wrong: int) -> dict[str, int]:
    """Counts of what is left out; counts of 0 are omitted.

    It counts addresses and ports that are taken or over a limit, Services without the Maglev tables that
    they ask for, and malformed objects.
    """
    found = {
        "conflicts": len(claims.lost),
        "over_limits": limits.n_over,
        "without_maglev": limits.n_by_chance,
        "wrong_objects": n_wrong,
    }
    return {name: count for name, count in found.items() if count}


def read_services(
    roots: Iterable[JsonValue],
    own: OwnNode,
    external: Ranges = (),
    note: Warn = unheard,
    warn: Warn = unheard,
) -> tuple[Frontend, ...]:
    """The frontends of `serve`; `InputError` if an object is malformed."""
    return serve(roots, own, external, note, warn, strict=True).frontends


def serve(
    roots: Iterable[JsonValue],
    own: OwnNode,
    external: Ranges = (),
    note: Warn = unheard,
    warn: Warn = unheard,
    strict: bool = False,
) -> Served:
    """Every frontend, as this node serves it.

    `note` is told what this node cannot serve. `warn` is told what is left out: taken by another object,
    malformed, or not supported. With `strict` a malformed object is an `InputError`. A document that is
    no API object always is one.
    """
    n_wrong = 0

    def wrong(error: InputError) -> None:
        nonlocal n_wrong
        if strict:
            raise error
        n_wrong += 1
        warn(f"left out: {error}")

    given, slices = objects(roots, wrong)
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        by_service.setdefault((each.namespace, each.service), []).append(each)
    claims, limits = Claims(warn), Limits(warn)
    asked, services = {}, []
    for service in given:
        name = service.namespace, service.name
        try:
            asked[name] = asked_of(service, by_service.get(name, []), own)
        except InputError as error:
            wrong(error)
            continue
        services.append(service)
        limits.put(name, service.created, asked[name])
    limits.settle()
    for service in services:
        name = service.namespace, service.name
        claims.put(name, service.created, limits.grant(name).of(asked[name].frontends))
    claims.settle(surroundings(own, external))
    note_node_ports(services, own, note)
    note_health(services, note)
    found = claims.frontends.values()
    return Served(
        tuple(sorted(found, key=lambda f: (f.address.version, f.address, f.port, f.protocol))),
        left_out(claims, limits, n_wrong),
    )
