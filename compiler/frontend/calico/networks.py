# SPDX-License-Identifier: Apache-2.0
"""The network sets and host endpoints that a Calico rule's selectors match by labels (semantics D43).

Felix matches all labels in one namespace of keys. A set has its own labels and those that it inherits
from its Kubernetes namespace, so `!has(team)` in a `namespaceSelector` also matches objects without a
namespace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.labels import (
    NAME,
    OF_NAMESPACE,
    OF_SERVICE_ACCOUNT,
    holds,
    in_some_namespace,
    inherited,
    keys,
    prefixed,
)
from policyc.compiler.frontend.calico.rule import ServiceAccountMatch
from policyc.compiler.frontend.calico.scalars import Selector
from policyc.compiler.frontend.cluster.nodes import (
    NAMESPACE_NAME_LABEL,
    namespace_labels,
)
from policyc.compiler.frontend.found import AddressSet
from policyc.compiler.frontend.lowered import Surroundings
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import Network


@dataclass(frozen=True, slots=True)
class Asked:
    """Selectors that must all hold, `not_selector` not. `namespace` is empty if any will do."""

    selector: Selector | None
    not_selector: Selector | None = None
    accounts: ServiceAccountMatch | None = None
    namespace: str = ""
    namespaces: Selector | None = None


def networks_found(asked: Asked, surroundings: Surroundings) -> list[Network]:
    """The networks of everything that the selectors match; unexpected matches get a warning."""
    found = [
        each for each in surroundings.found.address_sets if _is_found(each, asked, surroundings)
    ]
    for each in found:
        for warning in _surprises(each, asked):
            if warning not in surroundings.report.findings:
                surroundings.report.add(warning)
    return sorted({network for each in found for network in each.networks}, key=_network_order)


def _network_order(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


def _is_found(labelled: AddressSet, asked: Asked, surroundings: Surroundings) -> bool:
    if asked.namespace and labelled.namespace != asked.namespace:
        return False
    if not _is_in_namespaces(labelled, asked.namespaces, surroundings):
        return False
    if not _has_account(labelled, asked.accounts):
        return False
    if asked.selector and not _matches(labelled, asked.selector, surroundings):
        return False
    return not (asked.not_selector and _matches(labelled, asked.not_selector, surroundings))


def _is_in_namespaces(
    labelled: AddressSet, namespaces: Selector | None, surroundings: Surroundings
) -> bool:
    if namespaces is None:
        return True
    if namespaces.is_global:
        return not labelled.namespace
    condition = in_some_namespace(prefixed(namespaces.condition, OF_NAMESPACE))
    reads = keys(namespaces.condition)
    return holds(condition, _labels_of(labelled, reads, namespaces, surroundings))


def _has_account(labelled: AddressSet, accounts: ServiceAccountMatch | None) -> bool:
    """It has none: a name never holds, a selector holds if it requires no label to be present."""
    if accounts is None:
        return True
    if accounts.names:
        return False
    assert accounts.selector is not None
    return holds(prefixed(accounts.selector.condition, OF_SERVICE_ACCOUNT), labelled.labels)


def _matches(labelled: AddressSet, selector: Selector, surroundings: Surroundings) -> bool:
    reads = {
        key.removeprefix(OF_NAMESPACE)
        for key in keys(selector.condition)
        if key.startswith(OF_NAMESPACE)
    }
    return holds(selector.condition, _labels_of(labelled, reads, selector, surroundings))


def _labels_of(
    labelled: AddressSet, reads: set[str], selector: Selector, surroundings: Surroundings
) -> Mapping[str, str]:
    """Its own labels and inherited ones; `reads` are those that a selector reads of its namespace."""
    if not labelled.namespace:
        return labelled.labels
    theirs = _labels_of_namespace(labelled, reads, selector, surroundings)
    return {**inherited(labelled.namespace, theirs), **labelled.labels}


def _labels_of_namespace(
    labelled: AddressSet, reads: set[str], selector: Selector, surroundings: Surroundings
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


def _surprises(labelled: AddressSet, asked: Asked) -> Iterator[Diagnostic]:
    """Warnings about matches by labels where the fields seem to mean pods."""
    limits = []
    if asked.namespaces is not None and not asked.namespaces.is_global and not labelled.namespace:
        limits.append(asked.namespaces)
    if asked.accounts is not None and asked.accounts.selector is not None:
        limits.append(asked.accounts.selector)
    for limit in limits:
        finding = codes.NEGATIVE_FINDS_NETS.at(
            limit.span, limit.path, where=limit.path, name=labelled.title
        )
        yield finding.help("to match only pods, add `has(...)` of a label that they have")
    if asked.not_selector is not None:
        excluded = asked.not_selector
        finding = codes.NOT_SELECTOR_KEEPS_NETS.at(
            excluded.span, excluded.path, where=excluded.path, name=labelled.title
        )
        yield finding.help("to exclude addresses, use `notNets`")
