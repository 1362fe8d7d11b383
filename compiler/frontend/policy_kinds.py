# SPDX-License-Identifier: Apache-2.0
"""The reader of each kind of policy: one line per kind, and nothing API-specific beyond it.

A reader is imported for the first object of its kind: NetworkPolicies alone load no other API.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Pending, Reading
from policyc.compiler.frontend.object_kinds import (
    ADMIN_NETWORK_POLICY,
    BASELINE_ADMIN_NETWORK_POLICY,
    CALICO_VERSIONS,
    CILIUM_CIDR_GROUPS,
    CILIUM_CLUSTERWIDE_NETWORK_POLICY,
    CILIUM_NETWORK_POLICY,
    CLUSTER_NETWORK_POLICY,
    EXTENDED_POLICY,
    INTENT,
    NETWORK_POLICY,
)

Reader = Callable[[RawObject, Reading], Pending | None]
"""Decode and validate; None if the reported errors leave nothing to lower."""


@cache
def _imported(module: str, function: str) -> Reader:
    found: Reader = getattr(import_module(f"{__package__}.{module}"), function)
    return found


def _reader(module: str, function: str) -> Reader:
    """The reader `function` of a module of this package, imported on the first call."""
    return lambda raw, reading: _imported(module, function)(raw, reading)


_CALICO: Mapping[str, Reader] = {
    "NetworkPolicy": _reader("calico.readers", "read_calico_policy"),
    "GlobalNetworkPolicy": _reader("calico.readers", "read_calico_policy"),
    "StagedNetworkPolicy": _reader("calico.readers", "read_calico_policy"),
    "StagedGlobalNetworkPolicy": _reader("calico.readers", "read_calico_policy"),
    "StagedKubernetesNetworkPolicy": _reader("calico.staged", "read_staged_kubernetes_policy"),
    "Tier": _reader("calico.tiers", "read_tier"),
    "NetworkSet": _reader("calico.network_sets", "read_network_set"),
    "GlobalNetworkSet": _reader("calico.network_sets", "read_network_set"),
    "HostEndpoint": _reader("calico.host_endpoints", "read_host_endpoint"),
}
"""Kind -> reader, in both of Calico's API versions."""

READERS: Mapping[tuple[str, str], Reader] = {
    NETWORK_POLICY: _reader("network_policy.reader", "read_network_policy"),
    ADMIN_NETWORK_POLICY: _reader("admin.admin_network_policy", "read_admin_network_policy"),
    BASELINE_ADMIN_NETWORK_POLICY: _reader(
        "admin.admin_network_policy", "read_baseline_admin_network_policy"
    ),
    CLUSTER_NETWORK_POLICY: _reader("admin.cluster_network_policy", "read_cluster_network_policy"),
    EXTENDED_POLICY: _reader("extended.policy", "read_extended_policy"),
    INTENT: _reader("extended.intents", "read_intent"),
    **{(v, kind): reader for v in CALICO_VERSIONS for kind, reader in _CALICO.items()},
    CILIUM_NETWORK_POLICY: _reader("cilium.readers", "read_cilium_policy"),
    CILIUM_CLUSTERWIDE_NETWORK_POLICY: _reader("cilium.readers", "read_clusterwide_policy"),
    **dict.fromkeys(CILIUM_CIDR_GROUPS, _reader("cilium.readers", "read_cidr_group")),
}
"""(apiVersion, kind) -> reader, for every kind with the role of a policy."""
