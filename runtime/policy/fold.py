# SPDX-License-Identifier: Apache-2.0
"""Decides one (row, column) from the tier tables of a bundle, as the compiler would have.

It is the twin of `ir/fold.py`, with another algorithm: it cuts the service keys where any matching rule
begins or ends, and walks the tiers once per segment.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from policyc.runtime.bundle.bundle import DENY_OWN_NODE
from policyc.runtime.errors import InputError
from policyc.runtime.policy.classify import (
    ColumnKey,
    RowKey,
)
from policyc.runtime.policy.matching import (
    check_peer,
    holds,
)

NOT_ISOLATED_RULE = 0
FAIL_CLOSED_RULE = 1
LAST_KEY = 5 << 16 | 0xFF  # the last service key: protocol 255
_DENYING = ("deny", DENY_OWN_NODE, "reject")
_NOTING = ("log", "audit")
_ACTIONS = ("allow", "pass", *_DENYING, *_NOTING)
_MODES = ("first-match", "deny-wins")
Ranges = tuple[tuple[int, int], ...] | None
"""Service keys (lo, hi), both included; None is every service."""


Decided = tuple[int, tuple[int, ...]]
"""The deciding rule, and earlier rules that make notes."""


class Match(NamedTuple):
    """A rule whose peers match: the services that it covers, its action and its id.

    `makes_note`: it makes a note of each match that it does not decide.
    """

    ranges: Ranges
    action: str
    rule: int
    makes_note: bool


class TierRules:
    """Reads the tiers of classifier.json; rule ids continue those of rules.json."""

    def __init__(
        self,
        classifier: Mapping[str, Any],
        rules: Sequence[Mapping[str, Any]],
        size: Mapping[str, int],
    ) -> None:
        self._tiers: list[dict[str, Any]] = classifier["tiers"]
        _check(self._tiers, rules)
        self.n_refused = 0
        """How often a default deny got rule 1, because the ids had run out."""
        self.n_unnoted = 0
        """How often a decision lost its notes, for the same reason."""
        self._rules: list[Mapping[str, Any]] = list(rules)
        self._noted: dict[Decided, int] = {
            (rule["of"], tuple(rule["notes"])): rule["id"] for rule in rules if "notes" in rule
        }
        self._kinds = [port["kind"] for port in classifier["named_ports"]]
        self._capacity = size["capacity"]
        self._denies: list[bool] = [rule["action"] != "allow" for rule in rules]
        self._new: list[dict[str, Any]] = []
        self._defaults: dict[tuple[str, str, tuple[str, ...]], int] = {
            (rule["tier"], rule["direction"], tuple(rule["policies"])): rule["id"]
            for rule in rules
            if rule["kind"] == "default-deny" and "notes" not in rule
        }

    def denies(self, rule: int) -> bool:
        """Whether a flow that this rule decides is dropped."""
        return self._denies[rule]

    def new_rules(self) -> list[dict[str, Any]]:
        """Default denies, and decisions with notes, that the compiler did not make."""
        return list(self._new)

    def diagram(
        self, direction: str, row: RowKey, column: ColumnKey, blocks: frozenset[int]
    ) -> tuple[tuple[int, int], ...]:
        """Steps (lowest service key, rule id); adjacent steps have different rules."""
        named = dict(row.named if direction == "ingress" else column.named)
        tiers = [self._matching(t, direction, row, column, blocks, named) for t in self._tiers]
        cuts = {0}
        for matched, _ in tiers:
            for match in matched:
                for lo, hi in match.ranges or ():
                    cuts |= {lo, hi + 1}
        steps: list[tuple[int, int]] = []
        for key in sorted(cut for cut in cuts if cut <= LAST_KEY):
            rule = self._id(*_walk(tiers, key))
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
    ) -> tuple[list[Match], int | None]:
        """The tier's rules whose peers match, in order of evaluation, and its default for the row."""
        selecting = [p for p in tier["policies"] if p["subject"] in row.bits]
        matched = [
            Match(self._ranges(rule, named), rule["action"], rule["rule"], self._makes_note(rule))
            for policy in selecting
            for rule in policy[direction]
            if _has_peer(rule["peers"], column, blocks) and _is_own(rule["own"], row, column.family)
        ]
        if tier["mode"] == "deny-wins":
            matched.sort(key=lambda match: _place(match.action))
        isolating = [p for p in selecting if direction in p["isolates"]]
        if not isolating or tier["unmatched"] == "pass":
            return matched, None
        return matched, self._default(tier, direction, isolating)

    def _ranges(self, rule: dict[str, Any], named: Mapping[int, tuple[int, ...]]) -> Ranges:
        services, excepted = rule["services"], rule["except_services"]
        if services is None and not excepted:
            return None
        ranges = [(0, LAST_KEY)] if services is None else list(self._each_range(services, named))
        for lo, hi in self._each_range(excepted, named):
            ranges = [part for each in ranges for part in _without(each, lo, hi)]
        return tuple(ranges)

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

    def _makes_note(self, rule: dict[str, Any]) -> bool:
        if rule["action"] in _NOTING:
            return True
        return rule["action"] == "pass" and bool(self._rules[rule["rule"]].get("log"))

    def _id(self, rule: int, notes: tuple[int, ...]) -> int:
        """The id of a decision with its notes; without free ids it is decided without notes."""
        if not notes or rule == FAIL_CLOSED_RULE:
            return rule
        if (rule, notes) not in self._noted:
            if len(self._denies) >= self._capacity:
                self.n_unnoted += 1
                return rule
            self._noted[rule, notes] = self._add(
                {**self._rules[rule], "of": rule, "notes": list(notes)}, self._denies[rule]
            )
        return self._noted[rule, notes]

    def _add(self, rule: Mapping[str, Any], denies: bool) -> int:
        made = {**rule, "id": len(self._denies)}
        self._denies.append(denies)
        self._rules.append(made)
        self._new.append(made)
        return len(self._denies) - 1

    def _default(self, tier: dict[str, Any], direction: str, isolating: list[Any]) -> int:
        key = (tier["name"], direction, tuple(p["name"] for p in isolating))
        if key not in self._defaults:
            if len(self._denies) >= self._capacity:
                self.n_refused += 1
                return FAIL_CLOSED_RULE
            made = {
                "kind": "default-deny",
                "action": tier["unmatched"],
                "tier": tier["name"],
                "direction": direction,
                "policies": list(key[2]),
                "places": [p["place"] for p in isolating],
            }
            self._defaults[key] = self._add(made, denies=True)
        return self._defaults[key]


def _place(action: str) -> int:
    """As `ir/policy.py: Action.place`."""
    if action == DENY_OWN_NODE:
        return 0
    return 1 if action in _DENYING else 2


def _has_peer(peers: list[list[Any]] | None, column: ColumnKey, blocks: frozenset[int]) -> bool:
    """Whether a peer matches.

    Selectors match only endpoints, and node conditions only nodes; blocks match any address.
    """
    if peers is None:
        return True
    node = column.node or frozenset()
    matching = {
        "bit": column.bits or frozenset(),
        "block": blocks,
        "node": node,
        "local": node if column.is_local else frozenset(),
        "remote": frozenset() if column.is_local else node,
    }
    return any(holds(peer, lambda leaf: leaf[1] in matching[leaf[0]]) for peer in peers)


def _is_own(own: list[Any] | None, row: RowKey, family: int) -> bool:
    """Whether a rule's own side matches the subject, which is an endpoint and never a node."""
    if own is None:
        return True
    matching = {"bit": row.bits, "block": row.own(family)}
    return holds(own, lambda leaf: leaf[1] in matching.get(leaf[0], ()))


def _without(span: tuple[int, int], lo: int, hi: int) -> Iterator[tuple[int, int]]:
    """The rest of a range without lo..hi."""
    first, last = span
    if first < lo:
        yield first, min(last, lo - 1)
    if hi < last:
        yield max(first, hi + 1), last


def _walk(tiers: list[tuple[list[Match], int | None]], key: int) -> Decided:
    """The decision for one service key."""
    notes: list[int] = []
    for matched, default in tiers:
        is_passed = False
        for hit in matched:
            if hit.ranges is not None and not _inside(hit.ranges, key):
                continue
            if hit.makes_note:
                notes.append(hit.rule)
            is_passed = hit.action == "pass"
            if is_passed:
                break
            if hit.action not in _NOTING:
                return hit.rule, tuple(notes)
        if default is not None and not is_passed:
            return default, tuple(notes)
    return NOT_ISOLATED_RULE, tuple(notes)


def _inside(ranges: Sequence[tuple[int, int]], key: int) -> bool:
    return any(lo <= key <= hi for lo, hi in ranges)


def _check(tiers: list[dict[str, Any]], rules: Sequence[Mapping[str, Any]]) -> None:
    """Reject actions and modes that this release does not know: they must not count as allowing."""
    actions = {rule["action"] for rule in rules} | {tier["unmatched"] for tier in tiers}
    for tier in tiers:
        for policy in tier["policies"]:
            rules_here = [rule for d in ("ingress", "egress") for rule in policy[d]]
            actions |= {rule["action"] for rule in rules_here}
            for rule in rules_here:
                for peer in (*(rule["peers"] or ()), *(filter(None, (rule["own"],)))):
                    check_peer(peer)
    unknown = (actions - set(_ACTIONS)) | ({tier["mode"] for tier in tiers} - set(_MODES))
    if unknown:
        raise InputError(
            f"the bundle needs a newer release of policyc: unknown {', '.join(sorted(unknown))}",
            "load the bundle with the release that compiled it",
        )
