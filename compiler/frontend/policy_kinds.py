# SPDX-License-Identifier: Apache-2.0
"""Which reader reads which kind of policy: one line a kind, and nothing API-specific beyond it."""

from collections.abc import Callable, Mapping

from policyc.compiler.frontend.admin_network_policy import (
    read_admin_network_policy,
    read_baseline_admin_network_policy,
)
from policyc.compiler.frontend.calico_readers import CALICO_READERS
from policyc.compiler.frontend.cilium_readers import CILIUM_READERS
from policyc.compiler.frontend.cluster_network_policy import read_cluster_network_policy
from policyc.compiler.frontend.extended_policy import read_extended_policy
from policyc.compiler.frontend.intent_kind import read_intent
from policyc.compiler.frontend.kinds import (
    ADMIN_NETWORK_POLICY,
    BASELINE_ADMIN_NETWORK_POLICY,
    CALICO_VERSIONS,
    CILIUM_KINDS,
    CLUSTER_NETWORK_POLICY,
    EXTENDED_POLICY,
    INTENT,
    NETWORK_POLICY,
)
from policyc.compiler.frontend.lowered import Pending, Reading
from policyc.compiler.frontend.network_policy_reader import read_network_policy
from policyc.compiler.frontend.objects import RawObject

Reader = Callable[[RawObject, Reading], Pending | None]
"""Decode and validate; None where what was reported leaves nothing to lower."""

READERS: Mapping[tuple[str, str], Reader] = {
    NETWORK_POLICY: read_network_policy,
    ADMIN_NETWORK_POLICY: read_admin_network_policy,
    BASELINE_ADMIN_NETWORK_POLICY: read_baseline_admin_network_policy,
    CLUSTER_NETWORK_POLICY: read_cluster_network_policy,
    EXTENDED_POLICY: read_extended_policy,
    INTENT: read_intent,
    **{(v, kind): reader for v in CALICO_VERSIONS for kind, reader in CALICO_READERS.items()},
    **{(version, kind): CILIUM_READERS[kind] for version, kind in CILIUM_KINDS},
}
"""(apiVersion, kind) -> reader, for every kind with the role of a policy."""
