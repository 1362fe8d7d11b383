# SPDX-License-Identifier: Apache-2.0
"""Ends and flows for native code."""

import random
from dataclasses import replace
from ipaddress import ip_address

from policyc.ir.services import Service
from policyc.ir.universe import FAMILIES, End, Flow
from tests.property.cases import Case
from tests.property.tiered_cases import OUTSIDE

ON_LINK = tuple(map(ip_address, ("fe80::1", "febf::9", "fec0::1", "ff02::1:ff00:5", "ff05::2")))


def ends_of(case: Case) -> list[tuple[End, int]]:
    """Every end that flows of the case may have, in each family that it has."""
    outside = [*map(ip_address, OUTSIDE), *ON_LINK]
    own = [(end, f) for end in case.universe.endpoints for f in FAMILIES if end.address(f)]
    nodes = [
        (replace(node, speaks=speaks), f)
        for node in case.universe.nodes
        for f in FAMILIES
        if node.address(f)
        for speaks in (True, False)
    ]
    return [*own, *nodes, *((address, address.version) for address in outside)]


def flows_of(case: Case, rng: random.Random, ends: list[tuple[End, int]], count: int) -> list[Flow]:
    """Flows of the case's own making, and others that also go to themselves and along the link."""
    found = case.flows(rng, count // 2)
    while len(found) < count:
        src, family = rng.choice(ends)
        dst = src if rng.random() < 0.1 else rng.choice([e for e, f in ends if f == family])
        service = Service(58, rng.choice(range(132, 139)) << 8 | rng.choice((0, 255)))
        if rng.random() < 0.5:
            service = rng.choice(found).service if found else service
        found.append(Flow(src, dst, service, family))
    return found
