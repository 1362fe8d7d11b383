# SPDX-License-Identifier: Apache-2.0
"""Fixed text decides every flow as the original does, by the reference semantics.

Nothing of the comparison that proves a fix is used here.
"""

import io
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.check.answers import CheckOptions
from policyc.compiler.driver.check.check import check
from policyc.compiler.driver.check.fixes.fixing import fix
from policyc.compiler.driver.check.fixes.found import fixable
from policyc.compiler.driver.check.input import read_to_check
from policyc.compiler.frontend.read import ReadOptions
from policyc.ir.policy import Policy, PolicySet
from policyc.ir.semantics import EffectKind, EndVerdict, verdict
from policyc.ir.universe import Flow
from tests.property.cases import Case, random_case
from tests.property.kubernetes import policy_of
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)
N_FLOWS = 300


def objects(rng: random.Random, case: Case) -> list[dict[str, Any]]:
    """The policies, some with a copy, with doubled rules, or without policyTypes."""
    found = []
    for policy in (each for tier in case.policies.tiers for each in tier.policies):
        found.append(_varied(rng, policy))
        if rng.random() < 0.3:
            found.append(_varied(rng, policy))
            found[-1]["metadata"]["name"] += "-copy"
    return found


def _varied(rng: random.Random, policy: Policy) -> dict[str, Any]:
    made = policy_of(policy)
    for field in ("ingress", "egress"):
        rules = made["spec"].get(field)
        if rules and rng.random() < 0.5:
            rules.append(rng.choice(rules))
    if rng.random() < 0.3:
        made["spec"].pop("policyTypes", None)
    return made


def _without_aliases(made: dict[str, Any]) -> object:
    """The object with no part twice, which YAML would write as an alias."""
    return json.loads(json.dumps(made))


def decisions(policies: PolicySet, flows: list[Flow]) -> list[object]:
    found = (verdict(policies, flow) for flow in flows)
    return [(each.action, _effects(each.egress), _effects(each.ingress)) for each in found]


def _effects(end: EndVerdict) -> list[EffectKind]:
    return [effect.kind for effect in end.effects]


def check_seed(seed: int, is_flow: bool) -> None:
    rng = random.Random(seed)
    case = random_case(rng, max_policies=4)
    made = objects(rng, case)
    if not made:
        return
    text = yaml.safe_dump_all(map(_without_aliases, made), default_flow_style=is_flow)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.yaml")
        path.write_text(text)
        given_ = read_to_check([str(path)], [], ReadOptions(), io.BytesIO())
        options = CheckOptions(True)
        found = check(given_, options, lambda _: None)
        fixed = fix(given_, found, options, lambda _: None)
        again = check(fixed.given, options, lambda _: None)
    wanted = fixable(found)
    assert all("PC2006" in each.reason for each in fixed.plan.left_out)
    n_wanted = len(wanted.rules) + len(wanted.policies)
    assert fixed.plan.n_fixes + len(fixed.plan.left_out) == n_wanted
    assert fixed.plan.left_out or not fixable(again).rules
    flows = case.flows(rng, N_FLOWS)
    before, after = given_.read.policies.policies, fixed.given.read.policies.policies
    assert decisions(before, flows) == decisions(after, flows)


@settings(max_examples=examples(60, 8), deadline=None)
@given(SEEDS, st.booleans())
def test_fixed_text_decides_every_flow_as_the_original(seed: int, is_flow: bool) -> None:
    check_seed(seed, is_flow)
