# SPDX-License-Identifier: Apache-2.0
"""The comments of the emitted C: each rule with its source line, each class with its selectors."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice

from policyc.ir.atoms import NamedNumbers
from policyc.ir.bits import members
from policyc.ir.decision import DecisionIR, Diagram
from policyc.ir.describe import describe_condition, describe_peer, describe_selector
from policyc.ir.plan import (
    FIRST_COLUMN,
    FIRST_ROW,
    DirectionPlan,
    LookupPlan,
    viewed_columns,
    viewed_rows,
)
from policyc.ir.selectors import ALWAYS
from policyc.ir.trees import (
    ALLOW,
    ID_MASK,
    LEAF,
    diagram_name,
)
from policyc.ir.viewed import Verdicts, ViewedRow, ViewedTable
from policyc.ir.views import ColumnView

MAX_LINES = 200
MAX_ROWS, MAX_RUNS = 40, 12
MAX_RULES_OF_DIAGRAM = 10
NOTHING: Mapping[int, Sequence[str]] = {}


def comment(text: str) -> str:
    """The text, changed where it would end its comment or continue a line: users choose file names.

    It is also changed where a CI log that shows the comment would read a command (`##[`).
    """
    shown = text
    if not text.isprintable() or "\\" in text or "?" in text:
        shown = "".join(c if c.isprintable() and c not in "\\?" else "." for c in text)
    for found, apart in (("*/", "* /"), ("/*", "/ *"), ("##[", "# #["), ("##vso[", "# #vso[")):
        shown = shown.replace(found, apart)
    return shown


def rule_lines(verdicts: Verdicts) -> list[str]:
    """One line per rule, by id."""
    shown = verdicts.rules[:MAX_LINES]
    lines = [f"{at}: {comment(words)}" for at, words in enumerate(shown)]
    if len(verdicts.allows) > len(shown):
        lines.append(f"... and {len(verdicts.allows) - len(shown)} more, in rules.json")
    return lines


def class_lines(decision: DecisionIR, plan: DirectionPlan) -> Iterator[str]:
    """The subjects and the peers that a direction distinguishes."""
    selectors = decision.atoms.vocabulary.selectors
    rows = viewed_rows(decision, plan.view)
    yield f"{plan.direction.value}: classes of subjects, by row"
    for row, at in islice(rows.items(), MAX_LINES):
        held = [describe_selector(selectors[bit]) for bit in members(row.bits)]
        held += _named(decision, row.named)
        yield f"  {at}: {comment('; '.join(held) or 'selected by no policy')}"
    yield from _more(len(rows))
    columns = viewed_columns(decision, plan.view)
    yield f"{plan.direction.value}: classes of peers, by column"
    for column, at in islice(columns.items(), MAX_LINES):
        yield f"  {at}: {comment(column_words(decision, column))}"
    yield from _more(len(columns))


def verdict_lines(
    table: ViewedTable,
    plan: LookupPlan,
    direction: DirectionPlan,
    columns: Mapping[int, Sequence[str]] = NOTHING,
) -> Iterator[str]:
    """For each row, the columns with the same verdict.

    `columns` maps the ids of some rows to their `columns_in_words`.
    """
    yield f"{direction.direction.value}: verdicts, by row and columns"
    for row_id, at in enumerate(table.of_row[:MAX_ROWS], start=FIRST_ROW):
        row = table.rows[at]
        said = columns.get(row_id) or columns_in_words(row)
        for cell, shown in zip(row.cells, said, strict=True):
            named = f"column {shown}" if shown.isdigit() else f"columns {shown}"
            yield f"  row {row_id}, {named}: {word_in_words(plan.cell_words[cell])}"
    if len(table.of_row) > MAX_ROWS:
        yield f"  ... and {len(table.of_row) - MAX_ROWS} more rows, in the tables"


def columns_in_words(row: ViewedRow) -> list[str]:
    """For each cell of a row, the first runs of its columns as text: `1-3, 5`."""
    runs: list[list[str]] = [[] for _ in row.cells]
    column = FIRST_COLUMN
    for part, its_columns in groupby(row.parts):
        end = column + len(list(its_columns))
        runs[part].append(str(column) if end == column + 1 else f"{column}-{end - 1}")
        column = end
    return [", ".join(shown[:MAX_RUNS] + ["..."] * (len(shown) > MAX_RUNS)) for shown in runs]


def word_in_words(word: int) -> str:
    """The text of a word: an action and its rule, or a diagram."""
    if not word & LEAF:
        return f"diagram {diagram_name(word)}"
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
    """The text of a peer class: the attributes that rules read."""
    v = decision.atoms.vocabulary
    words = [describe_selector(v.selectors[bit]) for bit in members(column.bits)]
    words += [describe_peer(v.blocks[at]) for at in members(column.blocks)]
    words += _named(decision, column.named)
    where = "the pod's own node" if column.is_local else "a node"
    words += [
        where if c == ALWAYS else f"{where} with {describe_condition(c)}"
        for at, c in enumerate(v.node_conditions)
        if column.conditions >> at & 1
    ]
    said = "; ".join(words) or "peers that no rule names"
    return f"{said} (IPv{column.family})" if column.family else said


def rules_of(diagram: Diagram) -> list[int]:
    """The ids of the rules that decide in a diagram."""
    return sorted({rule for _, rule in diagram})


def rules_in_words(verdicts: Verdicts, rules: list[int]) -> list[str]:
    """The text of the first rules, with their source lines."""
    shown = [comment(verdicts.rules[rule]) for rule in rules[:MAX_RULES_OF_DIAGRAM]]
    if len(rules) > len(shown):
        shown.append(f"... and {len(rules) - len(shown)} more rules")
    return shown
