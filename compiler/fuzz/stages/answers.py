# SPDX-License-Identifier: Apache-2.0
"""A stage's answer about one end of a flow, in a form that compares with `==` between all stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policyc.compiler.driver.compile.node_tables import rule_json
from policyc.ir.decision import RuleEntry
from policyc.ir.lookup import entry_of
from policyc.ir.policy import Action, Direction
from policyc.ir.semantics import EndVerdict
from policyc.ir.universe import Flow

RuleJson = Mapping[str, Any]
"""An entry of rules.json."""


@dataclass(frozen=True, slots=True)
class Question:
    """One end of a flow. `is_decided`: policies decide it, no other clause allows it."""

    flow: Flow
    direction: Direction
    is_decided: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """The action, and the decider; `decider` None: the stage knows only the action."""

    action: Action
    decider: str | None

    def agrees_with(self, other: "Answer") -> bool:
        """Same action and, if both name it, the same decider."""
        is_same = None in (self.decider, other.decider) or self.decider == other.decider
        return self.action is other.action and is_same

    def __str__(self) -> str:
        return self.action.value if self.decider is None else f"{self.action.value}: {self.decider}"


def of_verdict(verdict: EndVerdict) -> Answer:
    """The answer of the reference semantics."""
    return of_entry(entry_of(verdict))


def of_entry(entry: RuleEntry) -> Answer:
    """The answer of a rule of the Decision IR."""
    words = _words(rule_json(0, entry))
    notes = [_words(rule_json(0, note)) for note in entry.notes]
    return Answer(entry.action.outcome, _with_notes(words, notes))


def of_json(rules: Sequence[RuleJson], rule: int) -> Answer:
    """The answer of an id, by rules.json and the node's additions to it."""
    entry = rules[rule]
    notes = [_words(rules[note]) for note in entry.get("notes", ())]
    return Answer(Action(entry["action"]).outcome, _with_notes(_words(entry), notes))


def _words(entry: RuleJson) -> str:
    policies = ", ".join(entry["policies"])
    paths = ", ".join(place["path"] for place in entry["places"] if place["path"])
    tier = f"tier {entry['tier']}" if entry["tier"] else ""
    return " ".join(filter(None, (entry["kind"], policies, paths, tier)))


def _with_notes(words: str, notes: Sequence[str]) -> str:
    return f"{words} (noted by {'; '.join(notes)})" if notes else words
