# SPDX-License-Identifier: Apache-2.0
"""Reads one NetworkPolicy: decoded, validated as the API server does, warned about, and lowered."""

from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    Lowered,
    NetworkPolicySlot,
    Pending,
    Reading,
)
from policyc.compiler.frontend.network_policy.lowering import (
    left_out_egress,
    lower_network_policy,
)
from policyc.compiler.frontend.network_policy.policy import decode_network_policy
from policyc.compiler.frontend.network_policy.validation import validate_network_policy
from policyc.compiler.frontend.network_policy.warnings import warn_network_policy

NO_STATUS_SINCE = (1, 28)
"""The version from which NetworkPolicy has no `status`."""


def read_network_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """The policy; its warnings are reported only if it has no errors."""
    report = reading.report
    before = len(report.findings)
    has_status = reading.server < NO_STATUS_SINCE
    decoder = Decoder(report)
    policy = decode_network_policy(decoder, raw.node, reading.default_namespace, has_status)
    if policy is None:
        return None
    validate_network_policy(policy, reading.is_strict, report)
    if any(finding.is_error for finding in report.findings[before:]):
        return Pending(policy.metadata)
    warn_network_policy(policy, report)
    # It looks up nothing, so it is lowered here, and its tree is not held until all is read.
    made, left_out = lower_network_policy(policy), left_out_egress(policy)
    lowered = (Lowered(made, NetworkPolicySlot(), left_out=left_out),)
    return Pending(policy.metadata, lambda _: lowered)
