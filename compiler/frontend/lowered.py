# SPDX-License-Identifier: Apache-2.0
"""The interface of every policy API to the rest of the front end: policies, and their order.

A kind's reader takes a raw object and a `Reading` (options), and gives a `Pending`: decoded and
validated. After everything is read, `Pending.lower` makes Policy IR of it with the `Surroundings` (other
objects: services, network sets). `tiers.py` then orders the lowered policies.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from policyc.compiler.frontend.found import NOTHING, Found
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.ir.diagnostics import Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Policy, Rule

if TYPE_CHECKING:  # reading NetworkPolicies alone does not load the readers of Services
    from policyc.compiler.frontend.cluster.services import Service

CLUSTER_NETWORK_POLICY = "ClusterNetworkPolicy"


class Profile(Enum):
    """The order of policies of several APIs (semantics F47)."""

    KUBERNETES = "kubernetes"
    CALICO = "calico"
    CILIUM = "cilium"


class Channel(Enum):
    """The release channel of the policy.networking.k8s.io CRDs to check objects against (C40)."""

    STANDARD = "standard"
    EXPERIMENTAL = "experimental"


class Unsupported(Enum):
    """The treatment of a rule with a part that policyc does not support."""

    ERROR = "error"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class AdminSlot:
    """Before NetworkPolicies, by ascending priority: ClusterNetworkPolicy Admin, AdminNetworkPolicy."""

    priority: int


@dataclass(frozen=True, slots=True)
class NetworkPolicySlot:
    """Among the NetworkPolicies."""


@dataclass(frozen=True, slots=True)
class BaselineSlot:
    """After NetworkPolicies: ClusterNetworkPolicy Baseline, BaselineAdminNetworkPolicy."""

    priority: int


@dataclass(frozen=True, slots=True)
class CalicoSlot:
    """In a tier of Calico's, by order and then name; an order of None is last (D43)."""

    tier: str
    order: float | None


@dataclass(frozen=True, slots=True)
class CiliumSlot:
    """In the one tier of Cilium's policies, where denies win."""


@dataclass(frozen=True, slots=True)
class ExtendedSlot:
    """In the policyc tier at position `tier` among the built-in ones, by `order`."""

    tier: float
    order: float


Slot = AdminSlot | NetworkPolicySlot | BaselineSlot | CalicoSlot | CiliumSlot | ExtendedSlot


@dataclass(frozen=True, slots=True)
class Lowered:
    """A policy and its slot. A staged one is compared with the live ones, never enforced.

    `left_out` are egress rules of a policy that does not list egress: the text ignores them (A6).
    """

    policy: Policy
    slot: Slot
    is_staged: bool = False
    left_out: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """The options of reading. `server` is the API server's (major, minor) version."""

    report: Report
    default_namespace: str = "default"
    server: tuple[int, int] = (1, 36)
    is_strict: bool = True
    channel: Channel = Channel.EXPERIMENTAL
    unsupported: Unsupported = Unsupported.ERROR


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Objects that lowering may look up. Services by (namespace, name); `found` by the kinds' readers.

    `namespaces` are the labels of those that have an object, by name.
    """

    report: Report
    services: "Mapping[tuple[str, str], Service]" = field(default_factory=dict)
    found: Found = NOTHING
    unsupported: Unsupported = Unsupported.ERROR
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def no_policies(_: Surroundings) -> Iterable[Lowered]:
    """For objects that are not policies themselves, such as network sets and tiers."""
    return ()


@dataclass(frozen=True, slots=True)
class Pending:
    """A decoded and valid object; `found` is what others may look up in the Surroundings."""

    metadata: ObjectMeta
    lower: Callable[[Surroundings], Iterable[Lowered]] = no_policies
    found: Found = NOTHING
