# SPDX-License-Identifier: Apache-2.0
"""What rules ask for beside allow and deny: in the program where they do, else nowhere."""

import struct

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.emission import Emitted, emit_all
from policyc.compiler.driver.enforceable import enforceable
from policyc.compiler.driver.pipeline import decide_all
from policyc.compiler.frontend import read_scenario
from policyc.compiler.frontend.lowered import Unsupported
from policyc.ir.decision import RuleEntry
from policyc.ir.effects import EffectBits, effects_of
from policyc.ir.policy import Action

RULES = """
ingress:
  {action} tcp/22 from any
  allow tcp from any
"""


def emitted(action: str) -> Emitted:
    spec = {"tier": 5, "appliesTo": "all", "rules": RULES.format(action=action)}
    policy = {
        "apiVersion": "policyc.dev/v1alpha1",
        "kind": "ExtendedPolicy",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    policies, _ = read_scenario("x", (policy,))
    found, findings = enforceable(policies, {}, Unsupported.ERROR)
    assert not findings
    return emit_all(decide_all(found, None).decision)


def seed(made: Emitted, name: str) -> Seed | None:
    return next((seed for seed in made.seeds if seed.map_name == name), None)


def test_a_program_without_effects_has_no_trace_of_them() -> None:
    made = emitted("deny")
    assert "PC_EFFECTS" not in made.c
    assert not {"pc_effects", "pc_answers", "pc_quotes"} & {each.map_name for each in made.seeds}
    assert made.plan.effects is EffectBits.NONE


def test_the_table_has_the_rule_that_rejects_and_no_other() -> None:
    made = emitted("reject")
    assert "#define PC_EFFECTS 0x1 /* of rules: reject */" in made.c
    table = seed(made, "pc_effects")
    assert table is not None and table.entries == made.plan.rules.capacity
    rejecting = [
        at for at, (kinds, *_) in enumerate(struct.iter_unpack("<4I", table.data)) if kinds
    ]
    assert [made.layout.verdicts.rules[rule].split()[0] for rule in rejecting] == ["reject"]


def test_defaults_ask_for_nothing() -> None:
    kinds = ("default-allow", "fail-closed", "default-deny")
    assert effects_of([RuleEntry(kind, Action.DENY) for kind in kinds]) == {}
