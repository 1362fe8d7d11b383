# SPDX-License-Identifier: Apache-2.0
"""Calico's NetworkPolicy and GlobalNetworkPolicy as typed values, live and staged (D41 to D44)."""

from dataclasses import dataclass, field, replace

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.metadata import decode_calico_metadata
from policyc.compiler.frontend.calico.rule import (
    Rule,
    decode_rules,
)
from policyc.compiler.frontend.calico.scalars import (
    Selector,
    decode_expression,
)
from policyc.compiler.frontend.calico.values import (
    choice,
    chosen_set,
    decimal,
)
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.tiers import CALICO_DEFAULT_TIER
from policyc.compiler.frontend.yaml.tree import Mapping

INGRESS, EGRESS = "Ingress", "Egress"
TYPES = (INGRESS, EGRESS)
SET, DELETE, LEARN, IGNORE = "Set", "Delete", "Learn", "Ignore"
STAGED_ACTIONS = (SET, DELETE, LEARN, IGNORE)
HINTS = ("AssumeNeededOnEveryNode",)
HOST_SWITCHES = ("doNotTrack", "preDNAT", "applyOnForward")
_COMMON = (
    *("tier", "order", "ingress", "egress", "selector", "types"),
    *("serviceAccountSelector", "performanceHints"),
)
_GLOBAL = (*HOST_SWITCHES, "namespaceSelector")


@dataclass(frozen=True, slots=True)
class CalicoPolicy:
    """A policy; `types` is never empty (D42). `kind` is the object's, `switches` are those set.

    `staged_action` is empty for a live policy. `tier_given` says whether spec.tier was present.
    """

    kind: str
    metadata: ObjectMeta
    tier: str
    tier_given: bool
    order: float | None
    types: tuple[str, ...]
    selector: Selector | None
    namespace_selector: Selector | None
    service_account_selector: Selector | None
    ingress: tuple[Rule, ...]
    egress: tuple[Rule, ...]
    switches: frozenset[str]
    staged_action: str
    spec: Mapping = field(compare=False)

    @property
    def is_global(self) -> bool:
        """Whether it is for the whole cluster, host endpoints included."""
        return "Global" in self.kind


def decode_calico_policy(
    decoder: Decoder, raw: RawObject, default_namespace: str
) -> CalicoPolicy | None:
    """The typed object; None if it has no readable metadata or spec."""
    is_global, is_staged = "Global" in raw.kind, raw.kind.startswith("Staged")
    metadata = decode_calico_metadata(decoder, raw, "" if is_global else default_namespace)
    spec = decode_spec(decoder, raw.node, _fields(is_global, is_staged))
    if metadata is None or spec is None:
        return None
    ingress, egress = (decode_rules(decoder, spec, name) for name in ("ingress", "egress"))
    tier = decoder.string(spec, "tier", "spec") or ""
    chosen_set(decoder, spec, "performanceHints", "spec", HINTS)
    types = chosen_set(decoder, spec, "types", "spec", TYPES)
    return CalicoPolicy(
        raw.kind,
        _stored_name(metadata, raw),
        tier or CALICO_DEFAULT_TIER,
        bool(tier),
        decimal(decoder, spec, "order", "spec"),
        types or default_types(spec),
        decode_expression(decoder, spec, "selector", "spec"),
        decode_expression(decoder, spec, "namespaceSelector", "spec") if is_global else None,
        decode_expression(decoder, spec, "serviceAccountSelector", "spec"),
        ingress,
        egress,
        frozenset(_switches(decoder, spec) if is_global else ()),
        _staged_action(decoder, spec) if is_staged else "",
        spec,
    )


def _fields(is_global: bool, is_staged: bool) -> frozenset[str]:
    names = (*_COMMON, *(_GLOBAL if is_global else ()))
    return frozenset((*names, "stagedAction") if is_staged else names)


def decode_spec(decoder: Decoder, node: Mapping, known: frozenset[str]) -> Mapping | None:
    """The spec; an absent one has no fields."""
    fields = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
    decoder.mapping(node, "", fields)
    if node.get("spec") is None:
        return Mapping(node.file, node.line, node.column, node.end_column)
    return decoder.object(node, "spec", "", known)


def default_types(spec: Mapping) -> tuple[str, ...]:
    """D42: by the rules that there are, invalid ones included; Ingress if there are none."""
    has_ingress, has_egress = (
        bool(getattr(spec.get(name), "items", ())) for name in ("ingress", "egress")
    )
    if has_ingress and has_egress:
        return TYPES
    return (EGRESS,) if has_egress else (INGRESS,)


def _switches(decoder: Decoder, spec: Mapping) -> list[str]:
    return [name for name in HOST_SWITCHES if decoder.boolean(spec, name, "spec")]


def _staged_action(decoder: Decoder, spec: Mapping) -> str:
    return choice(decoder, spec, "stagedAction", "spec", STAGED_ACTIONS) or SET


def _stored_name(metadata: ObjectMeta, raw: RawObject) -> ObjectMeta:
    """In the backing API policies of the default tier are stored as `default.<name>`."""
    prefix = f"{CALICO_DEFAULT_TIER}."
    if not raw.api_version.startswith("crd.") or not metadata.name.startswith(prefix):
        return metadata
    return replace(metadata, name=metadata.name.removeprefix(prefix))


def check_deletion(policy: CalicoPolicy, decoder: Decoder) -> None:
    """A staged deletion names a policy, and its tier at most."""
    for name, entry in policy.spec:
        if name not in ("tier", "stagedAction") and not entry.value.is_null:
            where = f"spec.{name}"
            decoder.report.add(codes.STAGED_DELETE.at(entry.key.span, where, where=where))
