# SPDX-License-Identifier: Apache-2.0
"""Decide one (row, column) from the tier tables of a bundle, as the compiler would have.

The twin of `ir/fold.py`, by another road: the service keys are cut where any matching rule begins or
ends, and each stretch walks the tiers once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policyc.runtime.classify import ColumnKey, RowKey

NOT_ISOLATED_RULE = 0
FAIL_CLOSED_RULE = 1
LAST_KEY = 5 << 16 | 0xFF  # of the service keys: protocol 255
_DENYING = ("deny", "reject")
Ranges = tuple[tuple[int, int], ...] | None
"""Service keys (lo, hi), both included; None is every service."""


class TierRules:
    """Reads the tiers of classifier.json; rule ids continue those of rules.json."""

    def __init__(
        self,
        classifier: Mapping[str, Any],
        rules: Sequence[Mapping[str, Any]],
        size: Mapping[str, int],
    ) -> None:
        self._tiers: list[dict[str, Any]] = classifier["tiers"]
        self._kinds = [port["kind"] for port in classifier["named_ports"]]
        self._capacity = size["capacity"]
        self._denies = [rule["action"] in _DENYING for rule in rules]
        self._new: list[dict[str, object]] = []
        self._defaults: dict[tuple[str, str, tuple[str, ...]], int] = {
            (rule["tier"], rule["direction"], tuple(rule["policies"])): rule["id"]
            for rule in rules
            if rule["kind"] == "default-deny"
        }

    def denies(self, rule: int) -> bool:
        """Whether a flow that this rule decides is dropped."""
        return self._denies[rule]

    def new_rules(self) -> list[dict[str, object]]:
        """Default denies of sets of policies that the compiler did not see together."""
        return list(self._new)

    def diagram(
        self, direction: str, row: RowKey, column: ColumnKey, blocks: frozenset[int]
    ) -> tuple[tuple[int, int], ...]:
        """Steps (lowest service key, rule id), neighbours with different rules."""
        named = dict(row.named if direction == "ingress" else column.named)
        tiers = [self._matching(t, direction, row, column, blocks, named) for t in self._tiers]
        cuts = {0}
        for matched, _ in tiers:
            for ranges, _, _ in matched:
                for lo, hi in ranges or ():
                    cuts |= {lo, hi + 1}
        steps: list[tuple[int, int]] = []
        for key in sorted(cut for cut in cuts if cut <= LAST_KEY):
            rule = _walk(tiers, key)
            if not steps or steps[-1][1] != rule:
                steps.append((key, rule))
        return tuple(steps)

    def _matching(
        self,
        tier: dict[str, Any],
        direction: str,
        row: RowKey,
        column: ColumnKey,
        blocks: frozenset[int],
        named: Mapping[int, tuple[int, ...]],
    ) -> tuple[list[tuple[Ranges, str, int]], int | None]:
        """The tier's rules whose peers match, in deciding order, and its default for the row."""
        selecting = [p for p in tier["policies"] if p["subject"] in row.bits]
        matched = [
            (self._ranges(rule["services"], named), rule["action"], rule["rule"])
            for policy in selecting
            for rule in policy[direction]
            if _has_peer(rule["peers"], column, blocks)
        ]
        if tier["mode"] == "deny-wins":
            matched.sort(key=lambda rule: rule[1] not in _DENYING)
        isolating = [p for p in selecting if direction in p["isolates"]]
        if not isolating or tier["unmatched"] == "pass":
            return matched, None
        return matched, self._default(tier, direction, isolating)

    def _ranges(self, services: list[Any] | None, named: Mapping[int, tuple[int, ...]]) -> Ranges:
        if services is None:
            return None
        return tuple(self._each_range(services, named))

    def _each_range(
        self, services: list[Any], named: Mapping[int, tuple[int, ...]]
    ) -> Iterator[tuple[int, int]]:
        for service in services:
            if isinstance(service, list):
                yield service[0], service[1]
            else:
                for number in named.get(service, ()):
                    key = self._kinds[service] << 16 | number
                    yield key, key

    def _default(self, tier: dict[str, Any], direction: str, isolating: list[Any]) -> int:
        key = (tier["name"], direction, tuple(p["name"] for p in isolating))
        if key not in self._defaults:
            if len(self._denies) >= self._capacity:
                return FAIL_CLOSED_RULE
            self._defaults[key] = len(self._denies)
            self._denies.append(True)
            self._new.append(
                {
                    "id": self._defaults[key],
                    "kind": "default-deny",
                    "action": tier["unmatched"],
                    "tier": tier["name"],
                    "direction": direction,
                    "policies": list(key[2]),
                    "places": [p["place"] for p in isolating],
                }
            )
        return self._defaults[key]


def _has_peer(peers: list[list[Any]] | None, column: ColumnKey, blocks: frozenset[int]) -> bool:
    """Selectors match endpoints only; blocks match any address."""
    if peers is None:
        return True
    bits = column.bits or frozenset()
    return any(index in (bits if kind == "bit" else blocks) for kind, index in peers)


def _walk(tiers: list[tuple[list[tuple[Ranges, str, int]], int | None]], key: int) -> int:
    """The rule that decides one service key."""
    for matched, default in tiers:
        hit = next((r for r in matched if r[0] is None or _inside(r[0], key)), None)
        if hit is not None and hit[1] != "pass":
            return hit[2]
        if hit is None and default is not None:
            return default
    return NOT_ISOLATED_RULE


def _inside(ranges: Sequence[tuple[int, int]], key: int) -> bool:
    return any(lo <= key <= hi for lo, hi in ranges)
