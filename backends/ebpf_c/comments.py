# SPDX-License-Identifier: Apache-2.0
"""The comments of the emitted C: rules with their places, and classes by their selectors."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

from policyc.ir.atoms import NamedNumbers
from policyc.ir.bits import members
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import DirectionPlan, LookupPlan, viewed_columns, viewed_rows
from policyc.ir.selectors import ALWAYS
from policyc.ir.tree import ALLOW, ID_MASK, LEAF
from policyc.ir.views import ColumnView
from policyc.ir.words import describe_condition, describe_peer, describe_selector

MAX_LINES = 200
MAX_ROWS, MAX_RUNS = 40, 12
MAX_RULES_OF_DIAGRAM = 10


def comment(text: str) -> str:
    """Text that cannot end the comment it stands in, nor continue a line: file names are the user's."""
    shown = "".join(c if c.isprintable() and c not in "\\?" else "." for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *")


def rule_lines(decision: DecisionIR) -> list[str]:
    """One line a rule, by id."""
    shown = decision.rules[:MAX_LINES]
    lines = [f"{at}: {comment(entry.describe())}" for at, entry in enumerate(shown)]
    if len(decision.rules) > len(shown):
        lines.append(f"... and {len(decision.rules) - len(shown)} more, in rules.json")
    return lines


def class_lines(decision: DecisionIR, plan: DirectionPlan) -> Iterator[str]:
    """The subjects and the peers that a direction tells apart."""
    selectors = decision.atoms.vocabulary.selectors
    rows = viewed_rows(decision, plan.view)
    yield f"{plan.direction.value}: the pods that policies select, by row"
    for row, at in islice(rows.items(), MAX_LINES):
        held = [describe_selector(selectors[bit]) for bit in members(row.bits)]
        held += _named(decision, row.named)
        yield f"  {at}: {comment('; '.join(held) or 'no policy selects it')}"
    yield from _more(len(rows))
    columns = viewed_columns(decision, plan.view)
    yield f"{plan.direction.value}: those they talk to, by column"
    for column, at in islice(columns.items(), MAX_LINES):
        yield f"  {at}: {comment(column_words(decision, column))}"
    yield from _more(len(columns))


def verdict_lines(
    decision: DecisionIR, plan: LookupPlan, direction: DirectionPlan
) -> Iterator[str]:
    """For each row, the columns with the same verdict: the table, as a policy's author would say it."""
    table, at_once = decision.table(direction.direction), len(direction.column_ids)
    first_row: dict[int, int] = {}
    for index, row in enumerate(direction.row_ids):
        first_row.setdefault(row, index)
    yield f"{direction.direction.value}: verdicts, row by row"
    for count, (row, index) in enumerate(sorted(first_row.items())):
        if count == MAX_ROWS:
            yield f"  ... and {len(first_row) - count} more rows, in the tables"
            return
        by_word: dict[int, dict[int, None]] = {}
        for column in range(at_once):
            word = plan.diagram_words[decision.cells[table[index][column]].rule]
            by_word.setdefault(word, {})[direction.column_ids[column]] = None
        for word, columns in by_word.items():
            yield f"  {row}, with {_columns(columns)}: {word_in_words(word)}"


def _columns(columns: Iterable[int]) -> str:
    """Ids, runs of them as first-last; the first of many."""
    runs: list[list[int]] = []
    for column in sorted(columns):
        if runs and runs[-1][1] == column - 1:
            runs[-1][1] = column
        else:
            runs.append([column, column])
    shown = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in runs[:MAX_RUNS]]
    return ", ".join(shown) + (", ..." if len(runs) > MAX_RUNS else "")


def word_in_words(word: int) -> str:
    """What a word says: an action and its rule, or which diagram is asked."""
    if not word & LEAF:
        return f"diagram {word}"
    return f"{'allowed' if word & ALLOW else 'denied'} by rule {word & ID_MASK}"


def _named(decision: DecisionIR, named: NamedNumbers) -> list[str]:
    """The named ports that a class declares, as `http = 8080`."""
    ports = decision.atoms.vocabulary.named_ports
    return [
        f"{ports[index].name} = {', '.join(map(str, sorted(numbers)))}" for index, numbers in named
    ]


def _more(count: int) -> Iterator[str]:
    if count > MAX_LINES:
        yield f"  ... and {count - MAX_LINES} more, in classifier.json"


def column_words(decision: DecisionIR, column: ColumnView) -> str:
    """A peer in words: what of it rules read."""
    v = decision.atoms.vocabulary
    words = [describe_selector(v.selectors[bit]) for bit in members(column.bits)]
    words += [describe_peer(v.blocks[at]) for at in members(column.blocks)]
    words += _named(decision, column.named)
    where = "the own node" if column.is_local else "a node"
    words += [
        where if c == ALWAYS else f"{where} with {describe_condition(c)}"
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
