# SPDX-License-Identifier: Apache-2.0
"""Examples from the user's own policies: unchanged and mutated; in their cluster, or random ones."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.clusters import clusters
from policyc.compiler.fuzz.strategies.draw import (
    LAYOUTS,
    Draw,
    Object,
)
from policyc.compiler.fuzz.strategies.mutations import mutated
from policyc.compiler.fuzz.strategies.own import Own
from policyc.compiler.fuzz.strategies.words import Strategy

MOST_POLICIES = 20
"""With more policies, an example has some: stages must agree on any subset."""
MOST_PODS = 20
_MOST_CHANGES = 5
_PODS = frozenset({
    "Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job",
    "CronJob",
})  # fmt: skip
_REFERRED_TO = frozenset({"Tier", "NetworkSet", "GlobalNetworkSet", "HostEndpoint"})


def own_examples(own: Own) -> Strategy:
    """Draws. The first one has no changes."""
    cluster = _some(own.cluster, _is_pod, MOST_PODS) if own.cluster else fitting(own.policies)
    changes = st.lists(
        st.tuples(st.integers(0, 2**20), st.integers(0, 2**10)), max_size=_MOST_CHANGES
    )
    return st.builds(
        _draw,
        cluster,
        _some(own.policies, _is_policy, MOST_POLICIES),
        changes,
        st.sampled_from(tuple(LAYOUTS)),
        st.integers(0, 2**16),
    )


def _draw(
    cluster: Sequence[Object],
    policies: Sequence[Object],
    changes: list[tuple[int, int]],
    layout: str,
    salt: int,
) -> Draw:
    return Draw((*cluster, *mutated(policies, changes)), frozenset(), layout, salt)


def _is_pod(item: Object) -> bool:
    return item["kind"] in _PODS


def _is_policy(item: Object) -> bool:
    return item["kind"] not in _REFERRED_TO


def _some(objects: Sequence[Object], is_counted: Callable[[Object], bool], most: int) -> Strategy:
    """All of them; if many count, a few of these and always the others."""
    numbers = [number for number, item in enumerate(objects) if is_counted(item)]
    if len(numbers) <= most:
        return st.just(tuple(objects))

    def chosen(kept: set[int]) -> tuple[Object, ...]:
        return tuple(o for at, o in enumerate(objects) if at in kept or not is_counted(o))

    return st.sets(st.sampled_from(numbers), min_size=1, max_size=most).map(chosen)


def fitting(policies: Sequence[Object]) -> Strategy:
    """Random clusters with pods in the namespaces and with the labels that the policies name."""
    names = sorted({n for p in policies if (n := p.get("metadata", {}).get("namespace"))})
    pairs = sorted(set(_pairs(list(policies))))
    if not names and not pairs:
        return clusters
    some = st.sampled_from(pairs) if pairs else st.just(("app", "x"))
    labels = st.lists(some, max_size=3).map(dict)
    spaces = st.sampled_from(names or ["default"])
    extra = st.lists(st.tuples(spaces, labels), min_size=1, max_size=5)

    def added(cluster: tuple[Object, ...], pods: list[tuple[str, dict[str, str]]]) -> Any:
        return (*cluster, *(_pod(at, where, given) for at, (where, given) in enumerate(pods)))

    return st.builds(added, clusters, extra)


def _pod(number: int, namespace: str, labels: dict[str, str]) -> Object:
    ips = (f"10.1.0.{number + 1}", f"fd01::{number + 1}")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"own{number}", "namespace": namespace, "labels": labels},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": ip} for ip in ips]},
    }


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """Labels that some selector requires: matchLabels and matchExpressions, anywhere in an object."""
    match value:
        case {"key": str(key), "values": list(values)}:
            yield from ((key, each) for each in values if isinstance(each, str))
        case dict():
            for name, item in value.items():
                if name == "matchLabels" and isinstance(item, dict):
                    yield from ((k, v) for k, v in item.items() if isinstance(v, str))
                yield from _pairs(item)
        case list():
            for item in value:
                yield from _pairs(item)
