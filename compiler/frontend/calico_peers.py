# SPDX-License-Identifier: Apache-2.0
"""The source or destination of a Calico rule -> a peer (semantics D43).

A selector selects workloads, network sets and host endpoints. The latter two are what Calico makes of
them: their addresses. So a selector is endpoints, or one of those networks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network

from policyc.compiler.frontend import codes_calico as codes
from policyc.compiler.frontend.calico_labels import (
    NAME,
    NAMESPACE,
    OF_NAMESPACE,
    endpoint_selector,
    holds,
    inherited,
    keys,
    on_namespaces,
    on_service_accounts,
    on_workloads,
)
from policyc.compiler.frontend.calico_rule import Entity, ServiceAccountMatch
from policyc.compiler.frontend.calico_scalars import Selector
from policyc.compiler.frontend.cluster_nodes import NAMESPACE_NAME_LABEL, namespace_labels
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


@dataclass(frozen=True, slots=True)
class LabelledNets:
    """Networks that selectors find by labels: a network set, or a host endpoint's addresses.

    `namespace` is empty for what has none. `labels` are the object's own.
    """

    title: str
    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a selector looks: everywhere, in one namespace, in some, or outside of all."""

    namespace: str | None = None
    namespaces: Selector | None = None

    @property
    def is_outside(self) -> bool:
        """Only what has no namespace: `global()`."""
        return self.namespaces is not None and self.namespaces.is_global


def entity_peer(entity: Entity, namespace: str, surroundings: Surroundings) -> Peer:
    """Who matches everything but ports and services; `namespace` is the policy's, if it has one."""
    parts: list[Peer] = []
    if entity.nets:
        parts.append(one_of(AddressPeer(net.network) for net in entity.nets))
    if entity.not_nets:  # CIDRs of one family make a rule for that family alone
        family = entity.not_nets[0].network.version
        parts.append(AddressPeer(EVERY_ADDRESS[family]))
        parts.append(Not(one_of(AddressPeer(net.network) for net in entity.not_nets)))
    selected = _selected(entity, namespace, surroundings)
    if selected is not None:
        parts.append(selected)
    if entity.not_selector is not None:
        parts.append(Not(_found(entity.not_selector, None, _Scope(), surroundings)))
    return all_of(parts)


def all_of(parts: list[Peer]) -> Peer:
    """The conjunction; anyone where there is nothing to hold."""
    if not parts:
        return ANY_PEER
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def one_of(parts: Iterable[Peer]) -> Peer:
    """The disjunction, without repetitions."""
    found = tuple(dict.fromkeys(parts))
    return found[0] if len(found) == 1 else OneOf(found)


def _selected(entity: Entity, namespace: str, surroundings: Surroundings) -> Peer | None:
    """The positive selectors together; None where there is none.

    In a namespaced policy any selector field, `notSelector` included, limits to the namespace.
    """
    accounts = entity.service_accounts
    if accounts is not None and not accounts.names and accounts.selector is None:
        accounts = None
    is_asked = entity.selector or accounts or entity.namespace_selector
    if not is_asked and not (namespace and entity.not_selector):
        return None
    if entity.namespace_selector is not None:
        scope = _Scope(namespaces=entity.namespace_selector)
    else:
        scope = _Scope(namespace=namespace or None)
    return _found(entity.selector, accounts, scope, surroundings)


def _found(
    selector: Selector | None,
    accounts: ServiceAccountMatch | None,
    scope: _Scope,
    surroundings: Surroundings,
) -> Peer:
    """Workloads, and the networks of sets and host endpoints; these have no service account."""
    parts: list[Peer] = []
    if not scope.is_outside:
        parts.append(
            EndpointPeer(
                endpoint_selector(
                    on_workloads(selector.condition if selector else ALWAYS),
                    *_account_conditions(accounts),
                    on_namespaces(scope.namespaces.condition if scope.namespaces else ALWAYS),
                    namespace=scope.namespace,
                )
            )
        )
    if accounts is None:
        parts += _networks(selector, scope, surroundings)
    return one_of(parts)


def _account_conditions(accounts: ServiceAccountMatch | None) -> Iterator[Condition]:
    if accounts is None:
        return
    if accounts.names:
        names = tuple(sorted(set(accounts.names)))
        yield AttributeTest(Attribute.SERVICE_ACCOUNT, Requirement("", Operator.IN, names))
    if accounts.selector is not None:
        yield on_service_accounts(accounts.selector.condition)


def _networks(selector: Selector | None, scope: _Scope, surroundings: Surroundings) -> list[Peer]:
    found = {
        network
        for labelled in _in_scope(scope, surroundings)
        if _matches(labelled, selector, surroundings)
        for network in labelled.networks
    }
    return [AddressPeer(network) for network in sorted(found, key=_network_order)]


def _network_order(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


def _in_scope(scope: _Scope, surroundings: Surroundings) -> Sequence[LabelledNets]:
    everything = surroundings.of(LabelledNets)
    if scope.namespace is not None:
        return [labelled for labelled in everything if labelled.namespace == scope.namespace]
    if scope.namespaces is None:
        return everything
    if scope.is_outside:
        return [labelled for labelled in everything if not labelled.namespace]
    one_of_each = {labelled.namespace: labelled for labelled in everything if labelled.namespace}
    wanted = {
        namespace
        for namespace, labelled in one_of_each.items()
        if _is_wanted(labelled, scope.namespaces, surroundings)
    }
    return [labelled for labelled in everything if labelled.namespace in wanted]


def _is_wanted(labelled: LabelledNets, namespaces: Selector, surroundings: Surroundings) -> bool:
    """Whether the namespace of a network set is one that a `namespaceSelector` selects."""
    condition = namespaces.condition
    theirs = _labels_of_namespace(labelled, keys(condition), namespaces, surroundings)
    return holds(condition, {**theirs, NAME: labelled.namespace})


def _matches(labelled: LabelledNets, selector: Selector | None, surroundings: Surroundings) -> bool:
    if selector is None:
        return True
    if not labelled.namespace:
        return holds(selector.condition, labelled.labels)
    reads = {
        key.removeprefix(OF_NAMESPACE)
        for key in keys(selector.condition)
        if key.startswith(OF_NAMESPACE)
    }
    theirs = _labels_of_namespace(labelled, reads, selector, surroundings)
    labels = {**inherited(labelled.namespace, theirs), **labelled.labels}
    return holds(selector.condition, {**labels, NAMESPACE: labelled.namespace})


def _labels_of_namespace(
    labelled: LabelledNets, reads: set[str], selector: Selector, surroundings: Surroundings
) -> Mapping[str, str]:
    known = surroundings.namespaces.get(labelled.namespace)
    if known is not None:
        return known
    if reads - {NAME, NAMESPACE_NAME_LABEL}:
        finding = codes.NAMESPACE_UNKNOWN.at(
            selector.span,
            selector.path,
            where=selector.path,
            namespace=labelled.namespace,
            name=labelled.title,
        )
        finding = finding.help("give the Namespace with --cluster")
        if finding not in surroundings.report.findings:  # several sets in one namespace
            surroundings.report.add(finding)
    return namespace_labels(labelled.namespace, {})
