# SPDX-License-Identifier: Apache-2.0
"""The parts of a region as JSON (docs/schemas/diff-v1.schema.json, `region`)."""

from collections.abc import Iterator
from typing import assert_never

from policyc.ir.describe import describe_condition
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer, Peer
from policyc.ir.results.regions import (
    EndConditions,
    EndGroups,
    RegionEnds,
    RegionParts,
    ServicePart,
)
from policyc.ir.selectors import ALWAYS, AllOf, EndpointSelector, LabelSelector, Not, OneOf
from policyc.ir.services import Kind, kind_span


def region_json(parts: RegionParts) -> dict[str, object]:
    """Sources, destinations and services."""
    return {
        "from": _ends(parts.src),
        "to": _ends(parts.dst),
        "services": [_services(part) for part in parts.services],
    }


def _ends(ends: RegionEnds) -> dict[str, object]:
    match ends:
        case EndGroups(groups, networks):
            return {"groups": list(groups), "networks": list(networks)}
        case EndConditions(among, conditions):
            all_of = [{"matches": holds, "peer": peer_json(peer)} for peer, holds in conditions]
            return {"among": among, "all_of": all_of}
        case _:
            assert_never(ends)


def peer_json(peer: Peer) -> dict[str, object]:
    """A peer by its kind; what label selectors cannot say is a condition in words."""
    match peer:
        case AnyPeer():
            return {"any": True}
        case EndpointPeer(selector):
            return {"pods": _selector(selector)}
        case AddressPeer(network, excepts):
            return {"cidr": str(network), "except": [str(each) for each in excepts]}
        case NodePeer(condition, where):
            words = {} if condition == ALWAYS else {"condition": describe_condition(condition)}
            return {"nodes": {"where": where.value, **words}}
        case AllOf(parts):
            return {"all_of": [peer_json(part) for part in parts]}
        case OneOf(parts):
            return {"one_of": [peer_json(part) for part in parts]}
        case Not(part):
            return {"not": peer_json(part)}
        case _:
            assert_never(peer)


def _selector(selector: EndpointSelector) -> dict[str, object]:
    found: dict[str, object] = {}
    if selector.namespace is not None:
        found["namespace"] = selector.namespace
    for name, labels in (
        ("namespace_labels", selector.namespace_labels),
        ("labels", selector.labels),
    ):
        if labels.requirements:
            found[name] = _requirements(labels)
    if selector.condition != ALWAYS:
        found["condition"] = describe_condition(selector.condition)
    return found


def _requirements(labels: LabelSelector) -> list[dict[str, object]]:
    return [
        {"key": each.key, "operator": each.operator.value, "values": list(each.values)}
        for each in labels.requirements
    ]


def _services(part: ServicePart) -> dict[str, object]:
    return {
        "ranges": list(_ranges(part)),
        "source_ports": [{"first": lo, "last": hi} for lo, hi in part.source_ports],
        "also": list(part.also),
    }


def _ranges(part: ServicePart) -> Iterator[dict[str, object]]:
    """Ranges of ports, of `type * 256 + code` for ICMP, and of protocol numbers for the others."""
    for kind in Kind:
        for lo, hi in part.keys & kind_span(kind):
            yield {"protocol": kind.name, "first": lo & 0xFFFF, "last": hi & 0xFFFF}
