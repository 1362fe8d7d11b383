# SPDX-License-Identifier: Apache-2.0
"""policyc.dev/v1alpha1 ExtendedPolicy: policyc's own kind of policy (semantics G)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_blocks import (
    RuleBlock,
    read_block,
)
from policyc.compiler.frontend.extended.rule_expressions import endpoint_selector
from policyc.compiler.frontend.extended.rule_passage import Passage
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.kubernetes.metadata import (
    ObjectMeta,
    decode_metadata,
    validate_metadata,
)
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import (
    ExtendedSlot,
    Lowered,
    Pending,
    Reading,
    Surroundings,
)
from policyc.compiler.frontend.tiers import ADMIN_ORDER, BASELINE_ORDER, DEFAULT_ORDER
from policyc.compiler.frontend.yaml.embedded_text import RuleText
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Scalar,
)
from policyc.grammar.parse import parse_expression
from policyc.ir.policy import Direction, EndpointSelector, Policy
from policyc.ir.spans import Origin

KIND = "ExtendedPolicy.policyc.dev"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC_FIELDS = frozenset({"tier", "order", "appliesTo", "rules"})
BUILT_IN = {
    ADMIN_ORDER: "the tier of AdminNetworkPolicy and ClusterNetworkPolicy Admin",
    DEFAULT_ORDER: "the tier of NetworkPolicy",
    BASELINE_ORDER: "the tier of BaselineAdminNetworkPolicy and ClusterNetworkPolicy Baseline",
}


@dataclass(frozen=True, slots=True)
class ExtendedPolicy:
    """The object as read; `passage` is that of its rules."""

    metadata: ObjectMeta
    slot: ExtendedSlot
    subject: EndpointSelector
    block: RuleBlock
    passage: Passage

    def lower(self, surroundings: Surroundings) -> Iterable[Lowered]:
        """One policy; each section that is present isolates in its direction (G56)."""
        rules = {
            direction: tuple(
                draft.finished(self.passage, surroundings)
                for draft in self.block.rules.get(direction, ())
            )
            for direction in Direction
        }
        policy = Policy(
            kind=KIND,
            namespace=self.metadata.namespace,
            name=self.metadata.name,
            subject=self.subject,
            isolates=frozenset(self.block.sections),
            ingress=rules[Direction.INGRESS],
            egress=rules[Direction.EGRESS],
            origin=Origin(self.metadata.span, "metadata.name"),
        )
        yield Lowered(policy, self.slot)


def read_extended_policy(raw: RawObject, reading: Reading) -> Pending | None:
    """Decode and validate; None if nothing of it can be lowered."""
    decoder = Decoder(reading.report)
    metadata = own_metadata(decoder, raw, _FIELDS)
    spec = decoder.object(raw.node, "spec", "", _SPEC_FIELDS)
    if spec is None:
        _require(raw.node, "spec", decoder)
        return None
    slot = _slot(decoder, spec)
    namespace = "" if metadata is None else metadata.namespace
    subject = _subject(decoder, spec, namespace)
    passage = passage_of(decoder, spec, "rules", namespace)
    block = None if passage is None else _block(passage, spec)
    if metadata is None or slot is None or subject is None or passage is None or block is None:
        return None if metadata is None else Pending(metadata)
    return Pending(metadata, ExtendedPolicy(metadata, slot, subject, block, passage).lower)


def own_metadata(decoder: Decoder, raw: RawObject, fields: frozenset[str]) -> ObjectMeta | None:
    """Metadata of policyc's own kinds: the namespace is the one given, or none (G49)."""
    decoder.mapping(raw.node, "", fields)
    metadata = decode_metadata(decoder, raw.node, "", is_strict=True)
    if metadata is None:
        return None
    given = decoder.string(metadata.node, "namespace", "metadata") or ""
    metadata = replace(metadata, namespace=given)
    validate_metadata(metadata, decoder.report)
    return metadata


def passage_of(decoder: Decoder, spec: Mapping, name: str, namespace: str) -> Passage | None:
    """The text of a required field; None if there is none, which is reported."""
    node = spec.get(name)
    if node is None:
        _require(spec, name, decoder, "spec")
        return None
    path = f"spec.{name}"
    if decoder.text(node, path) is None:
        return None
    assert isinstance(node, Scalar)
    return Passage(RuleText(node), path, decoder.report, namespace)


def _require(parent: Mapping, name: str, decoder: Decoder, path: str = "") -> None:
    """Report that a field is missing, unless it is present and wrong."""
    if parent.get(name) is None:
        where = f"{path}.{name}" if path else name
        found = codes.REQUIRED.at(parent.span_of(name), where, where=where)
        decoder.report.add(found.help(_HINTS.get(name, "")))


_HINTS = {
    "tier": "where the policy stands among tiers: before 1000, all others; 1000000 is NetworkPolicy",
    "appliesTo": 'which pods it is for: appliesTo: pod.app == "web", or appliesTo: all',
    "rules": "a block: `rules: |`, then `ingress:` and `egress:` with rules below them",
}


def _slot(decoder: Decoder, spec: Mapping) -> ExtendedSlot | None:
    """Tier and order (G48)."""
    tier = decoder.integer(spec, "tier", "spec")
    order = decoder.integer(spec, "order", "spec") or 0
    where = "spec.tier"
    if tier is None:
        _require(spec, "tier", decoder, "spec")
        return None
    if tier < 0:
        decoder.report.add(
            codes.TIER_NEGATIVE.at(spec.span_of("tier"), where, where=where, value=tier)
        )
        return None
    if tier in BUILT_IN:
        found = codes.TIER_BUILT_IN.at(
            spec.span_of("tier"), where, where=where, value=tier, tier=BUILT_IN[tier]
        )
        decoder.report.add(found.help(f"stand before it ({tier - 1}) or behind it ({tier + 1})"))
        return None
    return ExtendedSlot(tier, order)


def _subject(decoder: Decoder, spec: Mapping, namespace: str) -> EndpointSelector | None:
    passage = passage_of(decoder, spec, "appliesTo", namespace)
    if passage is None:
        return None
    parsed = parse_expression(passage.text.text)
    passage.say_problems(parsed)
    if not parsed.items:
        return None
    return endpoint_selector(parsed.items[0], passage, is_subject=True)


def _block(passage: Passage, spec: Mapping) -> RuleBlock | None:
    errors = len(passage.report.errors)
    block = read_block(passage)
    if not block.sections and len(passage.report.errors) == errors:
        where = passage.path
        found = codes.NO_RULES.at(spec.span_of("rules"), where, where=where)
        passage.report.add(found.help("`ingress:` alone denies all ingress"))
    return block
