# SPDX-License-Identifier: Apache-2.0
"""Small faults in one stage each are found within a few examples."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import z3

from policyc.backends.llvm.ends import NO_NODE, Ends
from policyc.compiler.frontend import ReadOptions
from policyc.compiler.fuzz.hunt import Hunt, Limits
from policyc.compiler.fuzz.stages.table import ready
from policyc.compiler.fuzz.strategies.examples import examples
from policyc.ir import decide
from policyc.ir.decision import PolicyTable, TableRule, TierTable
from policyc.ir.policy import Direction, NamedPort
from policyc.ir.universe import Endpoint, Node
from policyc.runtime.policy import classify
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic import verdict_terms

pytestmark = pytest.mark.thorough

_holds = classify.requirement_holds


def allows_before_denies(
    tier: TierTable, policies: Iterable[PolicyTable], direction: Direction
) -> list[TableRule]:
    return [rule for policy in policies for rule in policy.rules(direction)]


def no_named_ports(situation: verdict_terms.Situation, port: NamedPort) -> Term:
    return z3.BoolVal(False)


def nobody_speaks(ends: Ends, end: Endpoint | Node) -> int:
    return NO_NODE


def only_where_present(requirement: list[Any], labels: Mapping[str, str]) -> bool:
    return requirement[0] in labels and _holds(requirement, labels)


FAULTS = [
    ("decision", decide, "in_deciding_order", allows_before_denies),
    ("z3", verdict_terms.Situation, "declared", no_named_ports),
    ("native", Ends, "_speaks_for", nobody_speaks),
    ("executor-c", classify, "requirement_holds", only_where_present),
]


LATE = ("executor-c", "native", "z3")
"""Found after more examples: by `make test-all`."""


@pytest.mark.parametrize(
    ("stage", "owner", "name", "wrong"),
    [pytest.param(*f, marks=pytest.mark.slow if f[0] in LATE else (), id=f[0]) for f in FAULTS],
)
def test_fuzz_finds_each_planted_fault(
    stage: str, owner: object, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    with ready([stage]) as stages:
        hunt = Hunt(stages, ReadOptions(), examples(), 1, Limits(None, 300, 0.1))
        outcome = hunt.run()
    assert outcome.found is not None
    assert (outcome.found.stage, outcome.found.question is None) == (stage, False)
