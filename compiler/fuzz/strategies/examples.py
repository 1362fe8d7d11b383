# SPDX-License-Identifier: Apache-2.0
"""Whole examples: a cluster, and policies of APIs that may be combined."""

from collections.abc import Sequence

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.admin import cluster_network_policies, old_admin_policies
from policyc.compiler.fuzz.strategies.calico import calico_policies
from policyc.compiler.fuzz.strategies.cilium import cilium_policies
from policyc.compiler.fuzz.strategies.clusters import clusters
from policyc.compiler.fuzz.strategies.draw import (
    LAYOUTS,
    Draw,
    Object,
)
from policyc.compiler.fuzz.strategies.extended import extended_policies
from policyc.compiler.fuzz.strategies.kubernetes import network_policies
from policyc.compiler.fuzz.strategies.words import Strategy

_MOST_SALT = 2**16


def _together(*groups: Strategy) -> Strategy:
    return st.tuples(*groups).map(lambda found: [each for group in found for each in group])


APIS: dict[str, Strategy] = {
    "kubernetes": network_policies(4, 1),
    "admin": _together(old_admin_policies(2), network_policies(2)),
    "cluster": _together(cluster_network_policies(3), network_policies(2)),
    "calico": _together(calico_policies(3), network_policies(1)),
    "cilium": _together(cilium_policies(2), network_policies(1)),
    "extended": _together(extended_policies(2), network_policies(1)),
    "extended-admin": _together(extended_policies(2), cluster_network_policies(1)),
    "extended-cilium": _together(extended_policies(1), cilium_policies(1)),
    "extended-calico": _together(extended_policies(1), calico_policies(2)),
}
"""Sets of APIs by name; each is drawn as often as the others."""


def examples() -> Strategy:
    """Draws; the front end accepts most of them."""
    policies = st.sampled_from(tuple(APIS)).flatmap(lambda name: APIS[name])
    return st.builds(
        _draw,
        clusters,
        policies,
        st.sets(st.integers(0, 4), max_size=2),
        st.sampled_from(tuple(LAYOUTS)),
        st.integers(0, _MOST_SALT),
    )


def _draw(
    cluster: tuple[Object, ...],
    policies: Sequence[Object],
    hidden: set[int],
    layout: str,
    salt: int,
) -> Draw:
    pods = [each["metadata"] for each in cluster if each["kind"] == "Pod"]
    later = {f"{pod['namespace']}/{pod['name']}" for at, pod in enumerate(pods) if at in hidden}
    return Draw((*cluster, *policies), frozenset(later), layout, salt)
