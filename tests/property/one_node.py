# SPDX-License-Identifier: Apache-2.0
"""One node whose kernel is compared with the reference semantics."""

import random
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest

from policyc.ir.universe import Node, Universe
from policyc.runtime.lab.topology import Lab, LabEndpoint, LabNode
from tests.property.cases import Case
from tests.property.tiered_cases import tiered_case


@pytest.fixture(scope="module")
def node() -> Iterator[LabNode]:
    pods = [
        LabEndpoint(
            "lab", f"pod-{i}", IPv4Address(f"10.0.0.{i + 2}"), IPv6Address(f"fd00::{i + 2:x}")
        )
        for i in range(8)
    ]
    with Lab(pods) as lab:
        yield lab.node


def tiered_on_one_node(rng: random.Random, name: str) -> Case:
    """A case of several tiers and every kind of peer, with all pods on the lab's node."""
    case = tiered_case(rng, with_notes=True)
    own = Node(name, {"app": rng.choice(("x", "z"))}, (ip_address("10.0.0.200"),))
    nodes = (own, *case.universe.nodes) if rng.random() < 0.8 else case.universe.nodes
    its_node = own if own in nodes else None
    pods = tuple(replace(e, node=name, its_node=its_node) for e in case.universe.endpoints)
    return replace(case, universe=Universe(pods, nodes))
