# SPDX-License-Identifier: Apache-2.0
"""Reads one NetworkPolicy or GlobalNetworkPolicy of Calico's, live or staged (semantics D41 to D44)."""

from policyc.compiler.frontend.calico.lowering import (
    GROUP,
    lower_calico_policy,
)
from policyc.compiler.frontend.calico.policy import (
    DELETE,
    CalicoPolicy,
    check_deletion,
    decode_calico_policy,
)
from policyc.compiler.frontend.calico.validation import validate_calico_policy
from policyc.compiler.frontend.found import Found, StagedDeletion
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Pending, Reading


def read_calico_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """The policy; for a staged deletion, the name of the policy to delete."""
    decoder = Decoder(reading.report)
    policy = decode_calico_policy(decoder, raw, reading.default_namespace)
    if policy is None:
        return None
    if policy.staged_action == DELETE:
        check_deletion(policy, decoder)
        return Pending(policy.metadata, found=Found(deletions=(_deletion(policy),)))
    validate_calico_policy(policy, reading.report)
    return Pending(policy.metadata, lambda around: lower_calico_policy(policy, around))


def _deletion(policy: CalicoPolicy) -> StagedDeletion:
    kind = f"{policy.kind.removeprefix('Staged')}.{GROUP}"
    return StagedDeletion(kind, policy.metadata.namespace, policy.metadata.name)
