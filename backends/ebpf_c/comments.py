# SPDX-License-Identifier: Apache-2.0
"""The comments of the emitted C: rules with their places, and classes by their selectors."""

from collections import defaultdict
from collections.abc import Iterator

from policyc.ir.decision import DecisionIR
from policyc.ir.plan import DirectionPlan, LookupPlan, viewed_columns, viewed_rows
from policyc.ir.views import ColumnView
from policyc.ir.words import describe_condition, describe_peer, describe_selector

MAX_LINES = 200
MAX_RULES_OF_DIAGRAM = 10


def comment(text: str) -> str:
    """Text that cannot end the comment it stands in, nor continue a line: file names are the user's."""
    shown = "".join(c if c.isprintable() and c not in "\\?" else "." for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *")


def rule_lines(decision: DecisionIR) -> list[str]:
    """One line a rule, by id."""
    lines = [f"{at}: {comment(entry.describe())}" for at, entry in enumerate(decision.rules)]
    return _cut(lines, "rules.json")


def class_lines(decision: DecisionIR, plan: DirectionPlan) -> Iterator[str]:
    """The subjects and the peers that a direction tells apart."""
    selectors = decision.atoms.vocabulary.selectors
    rows = []
    for row, at in viewed_rows(decision, plan.view).items():
        held = [describe_selector(s) for bit, s in enumerate(selectors) if row.bits >> bit & 1]
        rows.append(f"{at}: {comment('; '.join(held) or 'no policy selects it')}")
    yield f"{plan.direction.value}: the pods that policies select, by row"
    yield from (f"  {line}" for line in _cut(rows, "classifier.json"))
    yield f"{plan.direction.value}: those they talk to, by column"
    columns = [
        f"{at}: {comment(column_words(decision, column))}"
        for column, at in viewed_columns(decision, plan.view).items()
    ]
    yield from (f"  {line}" for line in _cut(columns, "classifier.json"))


def column_words(decision: DecisionIR, column: ColumnView) -> str:
    """A peer in words: what of it rules read."""
    v = decision.atoms.vocabulary
    words = [describe_selector(s) for bit, s in enumerate(v.selectors) if column.bits >> bit & 1]
    words += [describe_peer(b) for at, b in enumerate(v.blocks) if column.blocks >> at & 1]
    where = "the own node" if column.is_local else "a node"
    words += [
        f"{where} with {describe_condition(c)}"
        for at, c in enumerate(v.node_conditions)
        if column.conditions >> at & 1
    ]
    said = "; ".join(words) or "anyone that no rule names"
    return f"{said} (IPv{column.family})" if column.family else said


def rules_by_word(decision: DecisionIR, plan: LookupPlan) -> dict[int, list[int]]:
    """Word of a diagram -> the ids of the rules that decide in it."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for cell in decision.cells:
        found[plan.diagram_words[cell.rule]] |= {leaf for _, leaf in decision.diagrams[cell.rule]}
    return {word: sorted(rules) for word, rules in found.items()}


def rules_in_words(decision: DecisionIR, rules: list[int]) -> list[str]:
    """The rules with their places, the first ones."""
    shown = [comment(decision.rules[rule].describe()) for rule in rules[:MAX_RULES_OF_DIAGRAM]]
    if len(rules) > len(shown):
        shown.append(f"... and {len(rules) - len(shown)} more rules")
    return shown


def _cut(lines: list[str], where: str) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    return [*lines[:MAX_LINES], f"... and {len(lines) - MAX_LINES} more, in {where}"]
