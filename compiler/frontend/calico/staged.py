# SPDX-License-Identifier: Apache-2.0
"""Calico's StagedKubernetesNetworkPolicy: a NetworkPolicy that is not enforced yet (semantics D44)."""

from collections.abc import Iterable
from dataclasses import replace

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.policy import (
    DELETE,
    IGNORE,
    SET,
    STAGED_ACTIONS,
)
from policyc.compiler.frontend.calico.values import choice
from policyc.compiler.frontend.found import Found, StagedDeletion
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    Lowered,
    NetworkPolicySlot,
    Pending,
    Reading,
    Surroundings,
)
from policyc.compiler.frontend.network_policy.lowering import lower_network_policy
from policyc.compiler.frontend.network_policy.policy import (
    NetworkPolicy,
    decode_network_policy,
)
from policyc.compiler.frontend.network_policy.validation import validate_network_policy
from policyc.compiler.frontend.yaml.tree import (
    Entry,
    Mapping,
)

KIND = "StagedKubernetesNetworkPolicy.projectcalico.org"


def read_staged_kubernetes_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """Decoded and validated as the NetworkPolicy that it may become."""
    decoder = Decoder(reading.report)
    given = raw.node.get("spec")
    action = SET
    if isinstance(given, Mapping):
        action = choice(decoder, given, "stagedAction", "spec", STAGED_ACTIONS) or SET
    policy = decode_network_policy(
        decoder, _without_action(raw.node, given), reading.default_namespace, has_status=True
    )
    if policy is None:
        return None
    validate_network_policy(policy, reading.is_strict, reading.report)
    meta = policy.metadata
    if action == DELETE:
        _check_deletion(policy, decoder)
        deletion = StagedDeletion("NetworkPolicy", meta.namespace, meta.name)
        return Pending(meta, found=Found(deletions=(deletion,)))
    return Pending(meta, lambda _: () if action == IGNORE else _lowered(policy, _))


def _without_action(node: Mapping, spec: object) -> Mapping:
    """The object as a NetworkPolicy: its spec without `stagedAction`."""
    if not isinstance(spec, Mapping):
        return node
    rest = {name: entry for name, entry in spec if name != "stagedAction"}
    bare = Mapping(spec.file, spec.line, spec.column, spec.end_column, rest)
    fields = {**node.entries, "spec": Entry(node.entries["spec"].key, bare)}
    return Mapping(node.file, node.line, node.column, node.end_column, fields)


def _check_deletion(policy: NetworkPolicy, decoder: Decoder) -> None:
    for name, entry in policy.spec:
        if not entry.value.is_null and (name != "podSelector" or _has_entries(entry)):
            where = f"spec.{name}"
            decoder.report.add(codes.STAGED_DELETE.at(entry.key.span, where, where=where))


def _has_entries(entry: Entry) -> bool:
    return not isinstance(entry.value, Mapping) or bool(entry.value.entries)


def _lowered(policy: NetworkPolicy, _: Surroundings) -> Iterable[Lowered]:
    lowered = replace(lower_network_policy(policy), kind=KIND)
    yield Lowered(lowered, NetworkPolicySlot(), is_staged=True)
