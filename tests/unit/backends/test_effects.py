# SPDX-License-Identifier: Apache-2.0
"""Effects of rules are in the program if and only if some rule has them."""

import struct
from dataclasses import replace

import pytest

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.enforced import enforced
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.compiler.frontend import read_scenario
from policyc.compiler.frontend.lowered import Unsupported
from policyc.ir.decision import RuleEntry
from policyc.ir.effects import EffectBits, RuleEffects, effects_of
from policyc.ir.errors import InputError
from policyc.ir.policy import Action, Limit, PolicySet

RULES = """
ingress:
  {action} tcp/22 from any{modifier}
  allow tcp from any
"""


def policies_of(action: str, modifier: str = "") -> PolicySet:
    spec = {"tier": 5, "appliesTo": "all", "rules": RULES.format(action=action, modifier=modifier)}
    policy = {
        "apiVersion": "policyc.dev/v1alpha1",
        "kind": "ExtendedPolicy",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    return read_scenario("x", (policy,))[0]


def emitted(action: str, modifier: str = "") -> Emitted:
    found, findings = enforced(policies_of(action, modifier), Unsupported.ERROR)
    assert not findings
    return emit_all(decide_all(found, None).decision)


def seed(made: Emitted, name: str) -> Seed | None:
    return next((seed for seed in made.seeds if seed.map_name == name), None)


def test_a_program_without_effects_has_no_trace_of_them() -> None:
    made = emitted("deny")
    assert "PC_REJECTS" not in made.c and "PC_LIMITS" not in made.c
    assert not {"pc_effects", "pc_answers", "pc_quotes"} & {each.map_name for each in made.seeds}
    assert made.plan.effects is EffectBits.NONE


def test_the_table_has_the_rule_that_rejects_and_no_other() -> None:
    made = emitted("reject")
    assert "#define PC_REJECTS 1\n" in made.c and "PC_LIMITS" not in made.c
    table = seed(made, "pc_effects")
    assert table is not None and table.entries == made.plan.rules.capacity
    rejecting = [
        at for at, (kinds, *_) in enumerate(struct.iter_unpack("<6I", table.data)) if kinds
    ]
    assert [made.layout.verdicts.rules[rule].split()[0] for rule in rejecting] == ["reject"]


@pytest.mark.parametrize(
    ("limit", "every", "slack"),
    [
        (Limit(100, 100), 10_000_000, 990_000_000),
        (Limit(3, 1), 333_333_334, 0),
        (Limit(1_000_000_000, 1_000_000_000), 1, 999_999_999),
        (Limit(1, 1_000_000_000), 1_000_000_000, 999_999_999 * 1_000_000_000),
    ],
)
def test_a_limit_has_an_interval_and_a_slack(limit: Limit, every: int, slack: int) -> None:
    found = effects_of([RuleEntry("rule", Action.ALLOW, limit=limit)])
    assert found == {0: RuleEffects(EffectBits.LIMIT, every, slack)}
    assert slack + every < 1 << 63


def test_only_maps_that_limits_and_rejects_need_exist() -> None:
    limiting = emitted("allow", " limit 5/s burst 2")
    assert "#define PC_LIMITS 1\n" in limiting.c and "PC_REJECTS" not in limiting.c
    names = {each.map_name for each in limiting.seeds}
    assert "pc_limits" in names and not {"pc_answers", "pc_quotes"} & names
    assert seed(emitted("reject"), "pc_limits") is None


def test_defaults_have_no_effects() -> None:
    kinds = ("default-allow", "fail-closed", "default-deny")
    assert effects_of([RuleEntry(kind, Action.DENY) for kind in kinds]) == {}


@pytest.mark.parametrize(("action", "modifier"), [("log", ""), ("deny", " log"), ("pass", " log")])
def test_only_maps_that_logs_need_exist(action: str, modifier: str) -> None:
    logging = emitted(action, modifier)
    assert "#define PC_LOGS 1\n" in logging.c
    assert "PC_REJECTS" not in logging.c and "PC_LIMITS" not in logging.c
    names = {each.map_name for each in logging.seeds}
    assert {"pc_effects", "pc_events", "pc_event_count"} <= names
    assert not {"pc_limits", "pc_answers"} & names
    assert seed(emitted("deny"), "pc_events") is None


def test_audit_needs_only_ids() -> None:
    made = emitted("audit")
    assert "PC_LOGS" not in made.c and made.plan.effects is EffectBits.NONE
    assert any(", after audit by " in words for words in made.layout.verdicts.rules)


def test_audit_needs_counters() -> None:
    with pytest.raises(InputError, match="`audit` without counters"):
        enforced(policies_of("audit"), Unsupported.ERROR, counts_rules=False)
    found, findings = enforced(policies_of("audit"), Unsupported.DENY, counts_rules=False)
    assert [finding.code for finding in findings] == ["PC0904"]
    assert not any(
        rule.makes_note for tier in found.tiers for p in tier.policies for rule in p.ingress
    )


def test_a_limit_counts_for_its_rule_whatever_was_noted_before() -> None:
    log = RuleEntry("rule", Action.LOG, index=0)
    allow = RuleEntry("rule", Action.ALLOW, index=1, limit=Limit(1, 1))
    found = effects_of([log, allow, replace(allow, notes=(log,))])
    one = 1_000_000_000
    assert found == {
        0: RuleEffects(EffectBits.LOG),
        1: RuleEffects(EffectBits.LIMIT, one, 0, 1),
        2: RuleEffects(EffectBits.LIMIT | EffectBits.LOG, one, 0, 1),
    }
