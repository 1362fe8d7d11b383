# SPDX-License-Identifier: Apache-2.0
"""Compares expected and observed outcomes: differences, a table for the terminal, JSON.

Pure functions over values. A probe that should be denied must get no answer: a refusal or an error is a
difference, whatever was expected.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from policyc.runtime.lab.probes import Observation, Outcome, Probe

SCHEMA = "policyc.dev/lab-result/v1"


@dataclass(frozen=True, slots=True)
class Difference:
    """A probe whose outcome differs from the expected one."""

    probe: Probe
    expected: Outcome  # allowed, denied or refused
    seen: Observation

    def __str__(self) -> str:
        return f"{self.probe}: expected {self.expected}, seen {self.seen}"


@dataclass(frozen=True, slots=True)
class Cell:
    """All probes from one end to another, counted."""

    n_probes: int = 0
    n_expected: int = 0  # expected to be allowed
    n_allowed: int = 0
    n_differences: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome of a matrix: cells by (source, destination), differences in probe order."""

    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    differences: tuple[Difference, ...]
    total: Cell

    @property
    def agrees(self) -> bool:
        """Whether every outcome is as expected."""
        return not self.differences


def compare(expected: Mapping[Probe, Outcome], seen: Mapping[Probe, Observation]) -> Comparison:
    """Compare expected and observed outcomes; both must hold the same probes.

    A probe that should be refused may get no answer: answers have a rate limit.
    """
    if expected.keys() != seen.keys():
        odd = min(expected.keys() ^ seen.keys())
        where = "expected but not seen" if odd in expected else "seen but not expected"
        raise ValueError(f"{odd} is {where}")
    differences = tuple(
        Difference(probe, outcome, seen[probe])
        for probe, outcome in expected.items()
        if not _is_as(outcome, seen[probe])
    )
    cells: dict[tuple[str, str], Cell] = {}
    total = Cell()
    for probe, outcome in expected.items():
        pair = (probe.source, probe.destination)
        cells[pair] = _counted(cells.get(pair, Cell()), outcome, seen[probe])
        total = _counted(total, outcome, seen[probe])
    sources = tuple(dict.fromkeys(probe.source for probe in expected))
    destinations = tuple(dict.fromkeys(probe.destination for probe in expected))
    return Comparison(sources, destinations, cells, differences, total)


def _is_as(expected: Outcome, seen: Observation) -> bool:
    return seen.outcome is expected or (
        expected is Outcome.REFUSED and seen.outcome is Outcome.DENIED
    )


def _counted(cell: Cell, expected: Outcome, seen: Observation) -> Cell:
    return Cell(
        cell.n_probes + 1,
        cell.n_expected + (expected is Outcome.ALLOWED),
        cell.n_allowed + (seen.outcome is Outcome.ALLOWED),
        cell.n_differences + (not _is_as(expected, seen)),
    )


def render(comparison: Comparison, *, max_differences: int = 50) -> RenderableType:
    """The matrix, a summary and the differences, for a rich console.

    A line is a source, and a column a destination, under its line's number. An entry says how many
    probes passed: `+` all, `.` none, otherwise the number. `!` and red mark an entry with differences,
    so colour is not the only mark.
    """
    parts: list[RenderableType] = [_table(comparison), _summary(comparison)]
    shown = comparison.differences[:max_differences]
    parts += [Text(f"  {difference}", style="red") for difference in shown]
    if hidden := len(comparison.differences) - len(shown):
        parts.append(Text(f"  and {hidden} more", style="red"))
    return Group(*parts)


def _table(comparison: Comparison) -> Table:
    ends = tuple(dict.fromkeys(comparison.sources + comparison.destinations))
    number = {end: str(position) for position, end in enumerate(ends, 1)}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("from \\ to")
    destinations = sorted(comparison.destinations, key=ends.index)
    for destination in destinations:
        table.add_column(number[destination], justify="right", no_wrap=True)
    for end in ends:
        row = [_cell(comparison.cells.get((end, to))) for to in destinations]
        # Only this column shrinks on a narrow terminal, and cuts names short.
        name = Text(f"{number[end]:>2} {end}", no_wrap=True, overflow="ellipsis")
        table.add_row(name, *row)
    return table


def _cell(cell: Cell | None) -> Text:
    if cell is None:
        return Text("")
    match cell.n_allowed:
        case 0:
            text, style = ".", "dim"
        case cell.n_probes:
            text, style = "+", "green"
        case some:
            text, style = str(some), "yellow"
    return Text(f"!{text}", style="bold red") if cell.n_differences else Text(text, style=style)


def _summary(comparison: Comparison) -> Text:
    total = comparison.total
    text = (
        "+ all passed, . none passed, else the number that passed\n"
        f"{total.n_probes} probes: {total.n_allowed} allowed, "
        f"{total.n_probes - total.n_allowed} not; "
    )
    if comparison.agrees:
        return Text(text + "all as expected", style="green")
    n = total.n_differences
    return Text(text + f"{n} {'differs' if n == 1 else 'differ'} from expected:", style="bold red")


def to_json(comparison: Comparison, seen: Mapping[Probe, Observation]) -> dict[str, object]:
    """All observations and the differences, as plain data."""
    total = comparison.total
    return {
        "schema": SCHEMA,
        "agrees": comparison.agrees,
        "probes": total.n_probes,
        "allowed": total.n_allowed,
        "differences": [
            _plain(d.probe, d.seen) | {"expected": str(d.expected)} for d in comparison.differences
        ],
        "seen": [_plain(probe, observation) for probe, observation in seen.items()],
    }


def _plain(probe: Probe, seen: Observation) -> dict[str, object]:
    plain: dict[str, object] = {
        "source": probe.source,
        "destination": probe.destination,
        "family": probe.family,
        "protocol": str(probe.protocol),
        "outcome": str(seen.outcome),
    }
    if probe.port:
        plain["port"] = probe.port
    if seen.detail:
        plain["detail"] = seen.detail
    return plain
