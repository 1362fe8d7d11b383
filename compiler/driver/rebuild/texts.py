# SPDX-License-Identifier: Apache-2.0
"""The files of a bundle that say what the policies are, from the texts of each policy."""

import json
from collections.abc import Sequence

from policyc.compiler.driver.bundle import CLASSIFIER_FILE, RULES_FILE
from policyc.compiler.driver.json_lines import joined_members, list_text, member_text
from policyc.compiler.driver.node_tables import RULES_SCHEMA, rule_json
from policyc.compiler.driver.policy_texts import ItemText, TierText, policies_text
from policyc.compiler.driver.rebuild.facts import PolicyFacts, shifted_entries, shifted_table
from policyc.compiler.driver.rebuild.made import Made
from policyc.compiler.driver.rebuild.record import Record
from policyc.compiler.driver.rebuild.rows import Numbering, numbering_of
from policyc.ir.decision import RuleEntry
from policyc.ir.policy import Action, Direction, TierMode
from policyc.ir.spans import Origin, Span
from policyc.ir.tables import RESERVED_RULES

SEPARATOR = ",\n"


def rule_texts(record: Record, facts: Sequence[PolicyFacts], numbering: Numbering) -> list[str]:
    """An item of rules.json for each rule, by id."""
    texts = [member_text(rule_json(at, entry)) for at, entry in enumerate(RESERVED_RULES)]
    for each, first in zip(facts, numbering.first, strict=True):
        if each.n_rules:
            texts += shifted_entries(each, first).split(SEPARATOR)
    known = _known_defaults(record, facts)
    for (direction, policies), rule in numbering.defaults.items():
        text = known.get((rule, direction, policies))
        if text is None:
            entry = _default(record, direction, [facts[at] for at in policies])
            text = member_text(rule_json(rule, entry))
        texts.append(text)
    return texts


def _known_defaults(
    record: Record, facts: Sequence[PolicyFacts]
) -> dict[tuple[int, Direction, tuple[int, ...]], str]:
    """The record's texts of defaults by id, direction and policies, none of which changed or moved."""
    same = [each is before for each, before in zip(facts, record.policies, strict=True)]
    before = numbering_of(record.policies, record.defaults)
    return {
        (rule, direction, policies): text
        for ((direction, policies), rule), text in zip(
            before.defaults.items(), record.default_texts, strict=True
        )
        if all(same[at] for at in policies)
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


def entries_of(texts: Sequence[str]) -> Sequence[RuleEntry]:
    """The entries that items of rules.json are of."""
    return Made(texts, _entry)


def _entry(text: str) -> RuleEntry:
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


def node_texts(
    record: Record, facts: Sequence[PolicyFacts], numbering: Numbering, rules: Sequence[str]
) -> dict[str, str]:
    """classifier.json and rules.json."""
    name, mode, unmatched = map(member_text, record.values["tier"])
    tables = ",".join(
        shifted_table(each, first) for each, first in zip(facts, numbering.first, strict=True)
    )
    tier = f'{{"mode":{mode},"name":{name},"policies":[{tables}],"unmatched":{unmatched}}}'
    return {
        CLASSIFIER_FILE: joined_members({**record.classifier, "tiers": list_text([tier])}),
        RULES_FILE: joined_members(
            {"schema": member_text(RULES_SCHEMA), "rules": list_text(rules)}
        ),
    }


def policies_json(record: Record, facts: Sequence[PolicyFacts], profile: str) -> str:
    """policies.json."""
    name, mode, unmatched = record.values["tier"]
    texts = (ItemText(each.policy, each.place.file, each.place.line).text for each in facts)
    tier = TierText(name, TierMode(mode), Action(unmatched), texts)
    return policies_text(profile, [tier], [], [])
