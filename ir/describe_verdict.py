# SPDX-License-Identifier: Apache-2.0
"""Text for a verdict of the reference semantics. Findings and witnesses show it."""

from typing import assert_never

from policyc.ir.semantics import (
    AllowedByDefault,
    DecidedByRule,
    DeniedByDefault,
    DeniedByHost,
    EndVerdict,
)


def describe_verdict(verdict: EndVerdict) -> str:
    """The text of a verdict: `allow by rule shop/web spec.ingress[0]`, with its effects."""
    match verdict.decider:
        case DecidedByRule(policy=policy) as by:
            who = f"by rule {policy.title} {by.rule.origin.path}"
        case DeniedByDefault(policies=policies):
            who = f"by default: isolated by {', '.join(policy.title for policy in policies)}"
        case DeniedByHost(host):
            who = f"by default: no policy selects the host interface {host}"
        case AllowedByDefault(why):
            who = f"by default: {why}"
        case _:
            assert_never(verdict.decider)
    effects = "".join(f", {effect.kind.value}" for effect in verdict.effects)
    return f"{verdict.action.value} {who}{effects}"
