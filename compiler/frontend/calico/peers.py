# SPDX-License-Identifier: Apache-2.0
"""The source or destination of a Calico rule -> a peer (semantics D43).

A selector selects workloads, network sets and host endpoints. Calico replaces the latter two by their
addresses (networks.py). So a selector becomes endpoints, or one of those networks.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, IPv6Network

from policyc.compiler.frontend.calico.labels import (
    endpoint_selector,
    on_namespaces,
    on_service_accounts,
    on_workloads,
)
from policyc.compiler.frontend.calico.networks import (
    Asked,
    networks_found,
)
from policyc.compiler.frontend.calico.rule import (
    Entity,
    ServiceAccountMatch,
)
from policyc.compiler.frontend.calico.selector import negated
from policyc.compiler.frontend.lowered import Surroundings
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    AddressPeer,
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    EndpointPeer,
    Network,
    Not,
    OneOf,
    Operator,
    Peer,
    Requirement,
)

EVERY_ADDRESS: Mapping[int, Network] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


def entity_peer(entity: Entity, namespace: str, surroundings: Surroundings) -> Peer:
    """The peer of everything but ports and services; `namespace` is the policy's, if it has one."""
    parts = _by_address(entity)
    asked = _asked(entity, namespace)
    if asked is not None:
        parts.append(_found(asked, surroundings))
    elif entity.not_selector is not None:
        parts.append(Not(_found(Asked(entity.not_selector), surroundings)))
    return all_of(parts)


def labelled_peer(entity: Entity, namespace: str) -> Peer | None:
    """The pods that an entity's selectors match by labels; None without a selector."""
    asked = _asked(entity, namespace)
    if asked is None:
        return None
    return all_of([*_by_address(entity), one_of(_endpoints(asked))])


def all_of(parts: list[Peer]) -> Peer:
    """The conjunction; any peer if there is no part."""
    if not parts:
        return ANY_PEER
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def one_of(parts: Iterable[Peer]) -> Peer:
    """The disjunction, without repetitions."""
    found = tuple(dict.fromkeys(parts))
    return found[0] if len(found) == 1 else OneOf(found)


def _by_address(entity: Entity) -> list[Peer]:
    parts: list[Peer] = []
    if entity.nets:
        parts.append(one_of(AddressPeer(net.network) for net in entity.nets))
    if entity.not_nets:  # CIDRs of one family restrict the rule to that family
        family = entity.not_nets[0].network.version
        parts.append(AddressPeer(EVERY_ADDRESS[family]))
        parts.append(Not(one_of(AddressPeer(net.network) for net in entity.not_nets)))
    return parts


def _asked(entity: Entity, namespace: str) -> Asked | None:
    """The conjunction of the selectors; None if there is none, or `notSelector` alone.

    In a namespaced policy any selector field, `notSelector` included, restricts to the namespace. Beside
    another selector `notSelector` is one more condition, as in libcalico-go and Felix.
    """
    accounts = entity.service_accounts
    if accounts is not None and not accounts.names and accounts.selector is None:
        accounts = None
    is_asked = entity.selector or accounts or entity.namespace_selector
    if not is_asked and not (namespace and entity.not_selector):
        return None
    in_namespace = namespace if entity.namespace_selector is None else ""
    return Asked(
        *(entity.selector, entity.not_selector, accounts),
        *(in_namespace, entity.namespace_selector),
    )


def _found(asked: Asked, surroundings: Surroundings) -> Peer:
    """Workloads, and the networks of sets and host endpoints."""
    networks = map(AddressPeer, networks_found(asked, surroundings))
    return one_of([*_endpoints(asked), *networks])


def _endpoints(asked: Asked) -> list[Peer]:
    """None if only objects without a namespace are selected."""
    namespaces = asked.namespaces
    if namespaces is not None and namespaces.is_global:
        return []
    conditions = [
        on_workloads(asked.selector.condition if asked.selector else ALWAYS),
        *_account_conditions(asked.accounts),
        on_namespaces(namespaces.condition if namespaces else ALWAYS),
    ]
    if asked.not_selector is not None:
        conditions.append(negated(on_workloads(asked.not_selector.condition)))
    return [EndpointPeer(endpoint_selector(*conditions, namespace=asked.namespace or None))]


def _account_conditions(accounts: ServiceAccountMatch | None) -> list[Condition]:
    if accounts is None:
        return []
    found: list[Condition] = []
    if accounts.names:
        names = tuple(sorted(set(accounts.names)))
        found.append(AttributeTest(Attribute.SERVICE_ACCOUNT, Requirement("", Operator.IN, names)))
    if accounts.selector is not None:
        found.append(on_service_accounts(accounts.selector.condition))
    return found
