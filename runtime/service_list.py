# SPDX-License-Identifier: Apache-2.0
"""All Services of a node at once, from the objects of the API server as files have them."""

from collections.abc import Iterable

from policyc.runtime.json_value import JsonValue
from policyc.runtime.service_claims import Claims, surroundings
from policyc.runtime.service_objects import EndpointSlice, Network, objects
from policyc.runtime.services import (
    Frontend,
    OwnNode,
    frontends_of,
    note_health,
    note_node_ports,
)
from policyc.runtime.state import Warn, to_nobody


def read_services(
    roots: Iterable[JsonValue],
    own: OwnNode,
    external: tuple[Network, ...] | None = None,
    note: Warn = to_nobody,
    warn: Warn = to_nobody,
) -> tuple[Frontend, ...]:
    """Every frontend, as this node has it, sorted.

    `external` are the ranges that externalIPs have to be in; None: any address is taken. `note` is told
    what the node cannot have, `warn` what is left out as it is another's. `InputError` where an object
    is wrong, or asks for what is not supported.
    """
    services, slices = objects(roots)
    by_service: dict[tuple[str, str], list[EndpointSlice]] = {}
    for each in slices:
        by_service.setdefault((each.namespace, each.service), []).append(each)
    claims = Claims(warn)
    for service in services:
        name = service.namespace, service.name
        claims.put(name, service.created, frontends_of(service, by_service.get(name, []), own))
    claims.settle(surroundings(own, external))
    note_node_ports(services, own, note)
    note_health(services, note)
    return tuple(
        sorted(
            claims.frontends.values(),
            key=lambda f: (f.address.version, f.address, f.port, f.protocol),
        )
    )
