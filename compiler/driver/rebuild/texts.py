# SPDX-License-Identifier: Apache-2.0
"""The bundle files that describe the policies, built from the texts of each policy."""

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence

from policyc.compiler.driver.compile.bundle import (
    CLASSIFIER_FILE,
    RULES_FILE,
)
from policyc.compiler.driver.compile.json_lines import member_text
from policyc.compiler.driver.compile.node_tables import rule_json
from policyc.compiler.driver.compile.policy_texts import POLICIES_FILE
from policyc.compiler.driver.rebuild.facts import (
    SEPARATOR,
    PolicyFacts,
    PolicyTexts,
    moved,
    shifted,
)
from policyc.compiler.driver.rebuild.policies import Policies
from policyc.compiler.driver.rebuild.record import Record
from policyc.compiler.driver.rebuild.rows import Numbering, numbering_of
from policyc.ir.decision import RuleEntry
from policyc.ir.lazy import Made
from policyc.ir.policy import Action, Direction
from policyc.ir.spans import Origin, Span
from policyc.ir.tables import RESERVED_RULES


class Texts:
    """The current parts of policies in these files: new texts of the policies that changed."""

    def __init__(self, record: Record, facts: Policies, numbering: Numbering) -> None:
        self._record, self._numbering = record, numbering
        self._changed = dict(_changed(record, facts, numbering))
        self._defaults = _default_texts(record, facts, numbering)
        self._of_policy: dict[int, list[str]] = {}

    @property
    def files(self) -> dict[str, bytes]:
        """The files by their names."""
        files, changed = self._record.files, self._changed.items()
        tables = {at: texts.table for at, texts in changed}
        entries = {at: texts.entries for at, texts in changed}
        items = {at: texts.item for at, texts in changed}
        return {
            CLASSIFIER_FILE: files[CLASSIFIER_FILE].with_changes(tables),
            RULES_FILE: files[RULES_FILE].with_changes(entries, self._defaults),
            POLICIES_FILE: files[POLICIES_FILE].with_changes(items),
        }

    @property
    def rules(self) -> Sequence[str]:
        """All rules in words, by id."""
        return Made(range(self._numbering.count), self._in_words)

    def _in_words(self, rule: int) -> str:
        known: Sequence[str] = self._record.values["rules_in_words"]
        is_of_policy = len(RESERVED_RULES) <= rule < self._numbering.count - len(self._defaults)
        if is_of_policy and rule < len(known):
            at = bisect_right(self._numbering.first, rule) - 1
            if at not in self._changed:  # then its rules have the same ids as before
                return known[rule]
        return self._entry(rule).describe()

    def _entry(self, rule: int) -> RuleEntry:
        first = self._numbering.first
        if rule < len(RESERVED_RULES):
            return RESERVED_RULES[rule]
        if rule >= self._numbering.count - len(self._defaults):
            return _entry_of(self._defaults[rule - self._numbering.count])
        at = bisect_right(first, rule) - 1
        if at not in self._of_policy:
            known = self._record.files[RULES_FILE].items
            text = self._changed[at].entries if at in self._changed else known.text(at)
            self._of_policy[at] = text.split(SEPARATOR)
        return _entry_of(self._of_policy[at][rule - first[at]])


def _changed(
    record: Record, facts: Policies, numbering: Numbering
) -> Iterator[tuple[int, PolicyTexts]]:
    """The old texts of the changed policies, at their old places and with their old ids."""
    table, entries, item = (
        record.files[name].items for name in (CLASSIFIER_FILE, RULES_FILE, POLICIES_FILE)
    )
    before = numbering_of(record.policies, ()).first
    for at, (first, its_first) in enumerate(zip(numbering.first, before, strict=True)):
        if at not in facts.changed and first == its_first:
            continue
        each = facts[at]
        texts = each.texts or PolicyTexts(table.text(at), entries.text(at), item.text(at))
        yield (
            at,
            PolicyTexts(
                shifted(texts.table, each, first),
                shifted(texts.entries, each, first),
                moved(texts.item, each),
            ),
        )


def _default_texts(record: Record, facts: Policies, numbering: Numbering) -> list[str]:
    """The entries of the default denies in rules.json, in the order of their ids."""
    known = _known_defaults(record, facts.changed)
    texts = []
    for (direction, policies), rule in numbering.defaults.items():
        text = known.get((rule, direction, policies))
        if text is None:
            entry = _default(record, direction, [facts[at] for at in policies])
            text = member_text(rule_json(rule, entry))
        texts.append(text)
    return texts


def _known_defaults(
    record: Record, changed: Collection[int]
) -> dict[tuple[int, Direction, tuple[int, ...]], str]:
    """The record's texts of defaults by id, direction and policies, none of which changed or moved."""
    before = numbering_of(record.policies, record.defaults)
    return {
        (rule, direction, policies): text
        for ((direction, policies), rule), text in zip(
            before.defaults.items(), record.default_texts, strict=True
        )
        if not any(at in changed for at in policies)
    }


def _default(record: Record, direction: Direction, isolating: Sequence[PolicyFacts]) -> RuleEntry:
    tier, _, unmatched = record.values["tier"]
    return RuleEntry(
        "default-deny",
        Action(unmatched),
        tier,
        direction,
        tuple(each.title for each in isolating),
        origins=tuple(map(_origin, isolating)),
    )


def _origin(each: PolicyFacts) -> Origin:
    place = each.place
    return Origin(Span(place.file, place.line, place.column), place.path)


def _entry_of(text: str) -> RuleEntry:
    """The rule entry of an entry of rules.json."""
    value = json.loads(text)
    return RuleEntry(
        value["kind"],
        Action(value["action"]),
        value["tier"],
        Direction(value["direction"]) if value["direction"] else None,
        tuple(value["policies"]),
        origins=tuple(
            Origin(Span(p["file"], p["line"], p["column"]), p["path"]) for p in value["places"]
        ),
    )
