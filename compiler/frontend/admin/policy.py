# SPDX-License-Identifier: Apache-2.0
"""policy.networking.k8s.io policies of every kind and version as typed values, decoded and checked.

AdminNetworkPolicy, BaselineAdminNetworkPolicy and ClusterNetworkPolicy have one form: they differ in
limits and in how ports are written, not in meaning. Parts keep their nodes, for places.
"""

from dataclasses import dataclass, field

from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.kubernetes.selectors import Selector
from policyc.compiler.frontend.lowered import AdminSlot, BaselineSlot
from policyc.compiler.frontend.unsupported import UnsupportedPart
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.policy import Action, Network, Ports
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class PodsOf:
    """Pods of namespaces; an absent selector selects all (B32, C39)."""

    namespaces: Selector | None
    pods: Selector | None


@dataclass(frozen=True, slots=True)
class NodesOf:
    """Nodes by their labels, matched by the addresses they hold (B33)."""

    nodes: Selector


@dataclass(frozen=True, slots=True)
class Networks:
    """CIDRs, host bits already masked (C39)."""

    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class DomainNames:
    """Domain names, which are not supported."""

    part: UnsupportedPart


AdminPeer = PodsOf | NodesOf | Networks | DomainNames


@dataclass(frozen=True, slots=True)
class EmptyPortName:
    """A port entry whose name is empty: it has no meaning, so its rule fails closed (B35)."""

    span: Span
    path: str


@dataclass(frozen=True, slots=True)
class AdminRule:
    """One rule. `ports` None: every protocol and port; `path` is that of the API."""

    action: Action
    name: str
    peers: tuple[AdminPeer, ...]
    ports: tuple[Ports | EmptyPortName, ...] | None
    path: str
    node: Mapping = field(compare=False)


@dataclass(frozen=True, slots=True)
class AdminPolicy:
    """A policy of this API and its position in the order."""

    kind: str
    metadata: ObjectMeta
    slot: AdminSlot | BaselineSlot
    subject: PodsOf
    ingress: tuple[AdminRule, ...]
    egress: tuple[AdminRule, ...]
