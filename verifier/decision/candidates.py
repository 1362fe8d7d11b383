# SPDX-License-Identifier: Apache-2.0
"""Candidate selectors of an endpoint: all but some that require a namespace or a label it lacks.

A selector is filed under one of its requirements, the one that the fewest selectors share. The key is
one of some values of a label (of the endpoint or of its namespace) or nothing, together with the
namespace that the selector names, if any. An endpoint looks up the keys that it has. An endpoint that a
selector selects meets all its requirements, so the lookup finds that selector.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from policyc.ir.selectors import EndpointSelector, Operator
from policyc.ir.universe import Endpoint

OWN, NAMESPACES = "own", "its namespace's"
Key = tuple[str | None, str, str, str]
"""The namespace that is named or None, the owner of the label, its key, its value."""
NO_LABEL = ("", "", "")
"""In a key: no label is required."""


class Candidates:
    """Finds the selectors, given by their bits, that must be evaluated for an endpoint."""

    def __init__(self, selectors: Sequence[EndpointSelector]) -> None:
        demands = [_demands(selector) for selector in selectors]
        asked_by = Counter(key for one in demands for keys in one for key in keys)
        self._filed: dict[Key, list[tuple[int, EndpointSelector]]] = {}
        for bit, selector in enumerate(selectors):
            for key in min(demands[bit], key=lambda keys: sum(asked_by[key] for key in keys)):
                self._filed.setdefault(key, []).append((bit, selector))

    def of(self, endpoint: Endpoint) -> Iterator[tuple[int, EndpointSelector]]:
        """(bit, selector) of every selector that may select the endpoint."""
        own, theirs = endpoint.labels.items(), endpoint.namespace_labels.items()
        for namespace in (endpoint.namespace, None):
            yield from self._filed.get((namespace, *NO_LABEL), ())
            for whose, labels in ((OWN, own), (NAMESPACES, theirs)):
                for key, value in labels:
                    yield from self._filed.get((namespace, whose, key, value), ())


def _demands(selector: EndpointSelector) -> list[tuple[Key, ...]]:
    """The requirements of a selector, each as keys of which a selected endpoint has one."""
    demands: list[tuple[Key, ...]] = []
    for whose, labels in ((OWN, selector.labels), (NAMESPACES, selector.namespace_labels)):
        for key, operator, values in ((r.key, r.operator, r.values) for r in labels.requirements):
            if operator is Operator.IN:
                demands.append(tuple((selector.namespace, whose, key, value) for value in values))
    return [*demands, ((selector.namespace, *NO_LABEL),)]
