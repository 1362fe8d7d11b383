# SPDX-License-Identifier: Apache-2.0
"""Cilium's entities -> peers, as far as policyc models what they stand for (E45)."""

from collections.abc import Mapping
from ipaddress import ip_network

from policyc.compiler.frontend.cilium.cidrs import OUTSIDE
from policyc.ir.policy import (
    ANY_PEER,
    EVERY_ENDPOINT,
    AddressPeer,
    AllOf,
    EndpointPeer,
    NodePeer,
    OneOf,
    Peer,
    Where,
)

_EVERY_IPV4, _EVERY_IPV6 = AddressPeer(ip_network("0.0.0.0/0")), AddressPeer(ip_network("::/0"))

ENTITIES: Mapping[str, Peer] = {
    "all": ANY_PEER,
    "world": AllOf(OUTSIDE),
    "world-ipv4": AllOf((_EVERY_IPV4, *OUTSIDE)),
    "world-ipv6": AllOf((_EVERY_IPV6, *OUTSIDE)),
    "cluster": OneOf((EndpointPeer(EVERY_ENDPOINT), NodePeer())),
    "host": NodePeer(where=Where.LOCAL),
    "remote-node": NodePeer(where=Where.REMOTE),
    "none": OneOf(()),
}
UNSUPPORTED_ENTITIES = frozenset(
    {"kube-apiserver", "health", "ingress", "init", "unmanaged", "cluster-mesh"}
)
"""Entities whose members policyc does not know."""
READ_ENTITIES = UNSUPPORTED_ENTITIES - {"cluster-mesh"}
"""Entities that are accepted in an allow: it allows nothing, as no such peer is known."""
EVERY_ENTITY = (*ENTITIES, *sorted(UNSUPPORTED_ENTITIES))
