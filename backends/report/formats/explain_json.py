# SPDX-License-Identifier: Apache-2.0
"""Explanations as JSON: docs/schemas/explain-v1.schema.json."""

import re

from policyc.backends.report.flows import flow_json
from policyc.backends.report.formats.json import document, place_json, universe_json
from policyc.backends.report.options import ReportOptions
from policyc.backends.report.verdicts import end_json
from policyc.ir.results.explain import (
    EndWalk,
    ExplainResult,
    Mismatch,
    PolicyWalk,
    RuleWalk,
    TierWalk,
)
from policyc.ir.results.reasons import Reason

FORMAT = "json"


def explain_json(result: ExplainResult, _options: ReportOptions) -> str:
    """The whole walk: every rule of every policy that selects an end."""
    return document(
        "explain/v1",
        flow=flow_json(result.flow),
        verdict=result.verdict,
        unknown=list(result.unknown),
        universe=universe_json(result.universe),
        egress=[_end(walk) for walk in result.egress],
        ingress=[_end(walk) for walk in result.ingress],
    )


def _end(walk: EndWalk) -> dict[str, object]:
    return {
        "subject": walk.subject,
        "assumed": walk.assumed,
        **end_json(walk.verdict),
        "skipped": walk.skipped,
        "tiers": [_tier(tier) for tier in walk.tiers],
        "changes": list(walk.changes),
        "choices": [{"clause": c.clause, "words": c.words} for c in walk.choices],
    }


def _tier(tier: TierWalk) -> dict[str, object]:
    return {
        "name": tier.name,
        "outcome": tier.outcome.value,
        "words": tier.words,
        "policies_in_tier": tier.n_policies,
        "policies": [_policy(policy) for policy in tier.policies],
    }


def _policy(policy: PolicyWalk) -> dict[str, object]:
    nearest = policy.nearest
    return {
        "place": place_json(policy.place),
        "isolates": policy.isolates,
        "nearest": None if nearest is None else policy.rules.index(nearest),
        "rules": [_rule(rule) for rule in policy.rules],
    }


def _rule(rule: RuleWalk) -> dict[str, object]:
    return {
        "place": place_json(rule.place),
        "words": rule.words,
        "action": rule.action.value,
        "role": rule.role.value,
        "mismatches": [_mismatch(mismatch) for mismatch in rule.mismatches],
    }


def _mismatch(mismatch: Mismatch) -> dict[str, object]:
    return {
        "part": mismatch.part.value,
        "asked": mismatch.asked,
        "alternatives": mismatch.n_alternatives,
        "reasons": [{"kind": _kind(reason), "words": reason.words} for reason in mismatch.reasons],
    }


def _kind(reason: Reason) -> str:
    """The name of its type, as `inside-except`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(reason).__name__).lower()


RENDERERS = {ExplainResult: explain_json}
