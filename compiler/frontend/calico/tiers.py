# SPDX-License-Identifier: Apache-2.0
"""Calico's Tier objects (semantics D41)."""

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.metadata import decode_calico_metadata
from policyc.compiler.frontend.calico.policy import decode_spec
from policyc.compiler.frontend.calico.values import (
    choice,
    decimal,
    is_blank,
)
from policyc.compiler.frontend.found import CalicoTier, Found
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    quoted,
)
from policyc.compiler.frontend.kubernetes.names import dns_label_problems
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Pending, Reading
from policyc.compiler.frontend.tiers import BUILT_IN_CALICO_TIERS, DEFAULT_ORDER
from policyc.compiler.frontend.yaml.tree import Mapping
from policyc.ir.diagnostics import Report
from policyc.ir.policy import Action

_FIELDS = frozenset({"order", "defaultAction"})
_ACTIONS = {"Deny": Action.DENY, "Pass": Action.PASS}
_WORDS = {action: word for word, action in _ACTIONS.items()}
_BUILT_IN = {tier.name: tier for tier in BUILT_IN_CALICO_TIERS}


def read_tier(raw: RawObject, reading: Reading) -> Pending | None:
    """The tier; without an order it has the default tier's order, then its name decides (D41)."""
    decoder = Decoder(reading.report)
    metadata = decode_calico_metadata(decoder, raw, "")
    spec = decode_spec(decoder, raw.node, _FIELDS)
    if metadata is None or spec is None:
        return None
    order = decimal(decoder, spec, "order", "spec")
    if spec.get("order") is None and metadata.name not in _BUILT_IN:
        found = codes.TIER_WITHOUT_ORDER.at(
            metadata.span, "spec.order", name=metadata.name, order=f"{DEFAULT_ORDER:.0f}"
        )
        reading.report.add(found.help("write the order; versions differ, and some put it last"))
    action = choice(decoder, spec, "defaultAction", "spec", _ACTIONS)
    if spec.get("defaultAction") is not None and action is None and is_blank(spec, "defaultAction"):
        where = "spec.defaultAction"
        reading.report.add(codes.REQUIRED.at(spec.span_of("defaultAction"), where, where=where))
    tier = CalicoTier(
        metadata.name, DEFAULT_ORDER if order is None else order, _ACTIONS[action or "Deny"]
    )
    _check_name(metadata, reading.report)
    _check_built_in(tier, spec, reading.report)
    return Pending(metadata, found=Found(tiers=(tier,)))


def _check_name(metadata: ObjectMeta, report: Report) -> None:
    """No dots, since names of policies may begin with `<tier>.`; other mistakes are reported before."""
    if "." in metadata.name or len(metadata.name) > 63:
        where = "metadata.name"
        for problem in dns_label_problems(metadata.name):
            report.add(
                codes.NAME.at(
                    metadata.span, where, where=where, value=quoted(metadata.name), problem=problem
                )
            )


def _check_built_in(tier: CalicoTier, spec: Mapping, report: Report) -> None:
    """A built-in tier may be repeated, but not changed."""
    built_in = _BUILT_IN.get(tier.name)
    if built_in is None:
        return
    order = f"{built_in.order or 0:.0f}"
    for name, is_right, value in (
        ("order", tier.order == built_in.order, order),
        ("defaultAction", tier.unmatched is built_in.unmatched, _WORDS[built_in.unmatched]),
    ):
        if not is_right:
            where = f"spec.{name}"
            finding = codes.TIER_BUILT_IN.at(
                spec.span_of(name), where, where=where, name=tier.name, field=name, value=value
            )
            report.add(finding.help(f"write `{name}: {value}`, or leave the object out"))
