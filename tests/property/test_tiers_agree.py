# SPDX-License-Identifier: Apache-2.0
"""Several tiers, both modes, every action: semantics, tables, proof and node give one answer."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.backends.ebpf_c.layout import choose_layout
from policyc.compiler.driver.compile.node_tables import rule_json
from policyc.compiler.driver.compile.pipeline import decide_all
from policyc.ir.decision import RuleEntry
from policyc.ir.lookup import end_decision, entry_of
from policyc.ir.policy import Action, Direction
from policyc.ir.semantics import end_verdict
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import Proved
from tests.property.length import examples
from tests.property.map_engine import MapEngine
from tests.property.node_layouts import (
    known_part,
)
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def check(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng, with_notes=True)
    known = known_part(case, rng)
    whole = decide_all(case.policies, case.universe).decision
    part = decide_all(case.policies, known).decision
    assert isinstance(prove_decision(case.policies, case.universe, whole), Proved)
    assert isinstance(prove_decision(case.policies, known, part), Proved)
    engine = MapEngine(part, choose_layout(part))
    for endpoint in case.universe.endpoints:
        engine.place(endpoint)
    for flow in case.flows(rng, 40):
        for direction, subject, peer in (
            (Direction.EGRESS, flow.src, flow.dst),
            (Direction.INGRESS, flow.dst, flow.src),
        ):
            wanted = entry_of(end_verdict(case.policies, direction, subject, peer, flow))
            assert end_decision(whole, direction, subject, peer, flow) == wanted, f"{flow}"
            seen = engine.decide(direction, subject, peer, flow)
            if seen is not None:
                allowed, rule = seen
                assert allowed is not wanted.action.is_deny, f"{flow} {direction}"
                assert _said(rule) == (
                    wanted.kind,
                    wanted.tier,
                    list(wanted.policies),
                    wanted.action.value,
                ), f"{flow} {direction}"
                noted = [
                    (*_said(engine.bundle.rules[note]), engine.bundle.rules[note]["places"])
                    for note in rule.get("notes", ())
                ]
                assert noted == [
                    (note.kind, note.tier, list(note.policies), note.action.value, _places(note))
                    for note in wanted.notes
                ], f"{flow} {direction}"
                logs = wanted.log or any(
                    note.log or note.action is Action.LOG for note in wanted.notes
                )
                assert engine.is_logged(rule["id"]) is logs, f"{flow} {direction}"


def _said(rule: dict[str, Any]) -> tuple[str, str, list[str], str]:
    return rule["kind"], rule["tier"], rule["policies"], rule["action"]


def _places(entry: RuleEntry) -> list[dict[str, Any]]:
    places: list[dict[str, Any]] = rule_json(0, entry)["places"]
    return places


@settings(max_examples=examples(60, 2))
@given(SEEDS)
def test_tiers_mean_the_same_to_every_engine(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@settings(max_examples=1500)
@given(SEEDS)
def test_tiers_mean_the_same_to_every_engine_at_length(seed: int) -> None:
    check(seed)
