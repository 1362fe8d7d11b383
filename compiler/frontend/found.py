# SPDX-License-Identifier: Apache-2.0
"""Objects of a policy API beside policies, by type: tiers, address sets, hosts, CIDR groups, intents.

Readers of policy kinds supply them (`Pending.found`). Lowering looks them up, and commands take from
them what they need.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.hosts import HostEndpoint
from policyc.ir.policy import Action, Network

if TYPE_CHECKING:  # reading NetworkPolicies alone does not load the rule language
    from policyc.compiler.frontend.extended.intents import IntentText


@dataclass(frozen=True, slots=True)
class CalicoTier:
    """A Tier object of Calico's. `order` None is last; `unmatched` is its defaultAction."""

    name: str
    order: float | None
    unmatched: Action


@dataclass(frozen=True, slots=True)
class AddressSet:
    """Addresses that Calico's selectors match by labels: of a network set, or of a host endpoint.

    `namespace` is empty for objects without one. `labels` are the object's own.
    """

    title: str
    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class CidrGroup:
    """A CiliumCIDRGroup: addresses that rules refer to by its name or its labels."""

    name: str
    labels: Mapping[str, str] = field(hash=False)
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class StagedDeletion:
    """A staged policy that removes the live policy of this kind, namespace and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Found:
    """Each field in the order of reading."""

    tiers: tuple[CalicoTier, ...] = ()
    address_sets: tuple[AddressSet, ...] = ()
    hosts: tuple[HostEndpoint, ...] = ()
    cidr_groups: tuple[CidrGroup, ...] = ()
    deletions: tuple[StagedDeletion, ...] = ()
    intents: "tuple[IntentText, ...]" = ()

    def __bool__(self) -> bool:
        """Whether any field has an entry."""
        return self != NOTHING


NOTHING = Found()


def joined(parts: Iterable[Found]) -> Found:
    """All parts merged."""
    given = [part for part in parts if part]
    if len(given) == 1:
        return given[0]
    return Found(
        tiers=tuple(each for part in given for each in part.tiers),
        address_sets=tuple(each for part in given for each in part.address_sets),
        hosts=tuple(each for part in given for each in part.hosts),
        cidr_groups=tuple(each for part in given for each in part.cidr_groups),
        deletions=tuple(each for part in given for each in part.deletions),
        intents=tuple(each for part in given for each in part.intents),
    )
