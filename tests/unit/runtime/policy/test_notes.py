# SPDX-License-Identifier: Apache-2.0
"""Notes on the node: notes new to the compiler get ids; without free ids, verdicts stay the same."""

from typing import Any

from policyc.runtime.policy.classify import (
    ColumnKey,
    RowKey,
)
from policyc.runtime.policy.fold import TierRules

RULES = [
    {"id": 0, "kind": "default-allow", "action": "allow"},
    {"id": 1, "kind": "fail-closed", "action": "deny"},
    {"id": 2, "kind": "rule", "action": "log", "policies": ["p"]},
    {"id": 3, "kind": "rule", "action": "pass", "policies": ["p"], "log": True},
    {"id": 4, "kind": "rule", "action": "deny", "policies": ["q"]},
    {"id": 5, "kind": "rule", "action": "allow", "policies": ["q"], "of": 4, "notes": [2]},
]


def rule(at: int, services: list[list[int]] | None) -> dict[str, Any]:
    return {
        "rule": at,
        "action": RULES[at]["action"],
        "peers": None,
        "services": services,
        "own": None,
        "except_services": [],
    }


def tier(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    policy = {"name": name, "subject": 0, "isolates": [], "ingress": list(rules), "egress": []}
    return {"name": name, "mode": "first-match", "unmatched": "deny", "policies": [policy]}


def tiers(capacity: int) -> TierRules:
    found = [
        tier("p", rule(2, [[80, 89]]), rule(3, [[85, 99]])),
        tier("q", rule(4, [[88, 88]])),
    ]
    return TierRules({"tiers": found, "named_ports": []}, RULES, {"capacity": capacity})


def diagram(given: TierRules) -> list[tuple[int, int]]:
    row = RowKey(frozenset({0}))
    return list(given.diagram("ingress", row, ColumnKey(4, 0), frozenset()))


def test_new_ids_follow_the_deciding_order_of_notes() -> None:
    found = tiers(20)
    steps = diagram(found)
    made = {each["id"]: (each["of"], each["notes"]) for each in found.new_rules()}
    assert [(lo, made.get(ident, ident)) for lo, ident in steps] == [
        (0, 0),
        (80, (0, [2])),
        (85, (0, [2, 3])),
        (88, (4, [2, 3])),
        (89, (0, [2, 3])),
        (90, (0, [3])),
        (100, 0),
    ]
    denied = next(ident for lo, ident in steps if lo == 88)
    assert [found.denies(ident) for _, ident in steps] == [ident == denied for _, ident in steps]
    assert diagram(found) == steps and found.n_unnoted == 0


def test_without_ids_notes_are_lost_and_counted_and_verdicts_are_not() -> None:
    found = tiers(len(RULES))
    assert diagram(found) == [(0, 0), (88, 4), (89, 0)]
    assert found.n_unnoted > 0 and found.n_refused == 0 and not found.new_rules()
