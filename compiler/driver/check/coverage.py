# SPDX-License-Identifier: Apache-2.0
"""Coverage: which workloads of the cluster no policy isolates."""

from collections import defaultdict
from collections.abc import Iterable

from policyc.ir.matching import selects
from policyc.ir.policy import Action, Direction, Policy, PolicySet
from policyc.ir.results.coverage import Coverage, Isolation
from policyc.ir.selectors import EndpointSelector
from policyc.ir.universe import Endpoint


def coverage(policies: PolicySet, endpoints: Iterable[Endpoint]) -> Coverage:
    """The isolation of the endpoints that policies apply to.

    Pods with the same labels, namespace and ServiceAccount are asked once.
    """
    alike: defaultdict[object, list[Endpoint]] = defaultdict(list)
    host_network = []
    for end in endpoints:
        if end.host_network:
            host_network.append(end.qualified_name)
        else:
            alike[_selected_by(end)].append(end)
    groups = list(alike.values())
    return Coverage(
        sum(map(len, groups)),
        tuple(_isolation(policies, direction, groups) for direction in Direction),
        tuple(sorted(set(host_network))),
    )


def _selected_by(end: Endpoint) -> object:
    """All that a selector may ask: pods that are alike in it are selected alike."""
    asked = end.labels, end.namespace_labels, end.service_account_labels
    labels = (frozenset(each.items()) for each in asked)
    return end.namespace, *labels, end.service_account, end.node


def _isolation(
    policies: PolicySet, direction: Direction, groups: Iterable[list[Endpoint]]
) -> Isolation:
    subjects = list(dict.fromkeys(each.subject for each in _isolating(policies, direction)))
    by_namespace = _by_namespace(subjects)
    everywhere = by_namespace.get(None, [])
    found = [
        end.qualified_name
        for group in groups
        if not any(
            selects(subject, group[0])
            for subject in (*by_namespace.get(group[0].namespace, ()), *everywhere)
        )
        for end in group
    ]
    return Isolation(direction, tuple(sorted(set(found))))


def _isolating(policies: PolicySet, direction: Direction) -> Iterable[Policy]:
    """The policies that deny what no rule matches; a tier may pass it on instead."""
    for tier in policies.tiers:
        if tier.unmatched is not Action.PASS:
            yield from (policy for policy in tier.policies if direction in policy.isolates)


def _by_namespace(
    subjects: Iterable[EndpointSelector],
) -> dict[str | None, list[EndpointSelector]]:
    """The selectors by the namespace that they are bound to; None: to none."""
    found: defaultdict[str | None, list[EndpointSelector]] = defaultdict(list)
    for subject in subjects:
        found[subject.namespace].append(subject)
    return found
