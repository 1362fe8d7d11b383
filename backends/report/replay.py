# SPDX-License-Identifier: Apache-2.0
"""The parts of a replay that several formats show."""

from collections.abc import Iterator

from policyc.backends.report.entries import Entry, Level
from policyc.backends.report.flows import flow_words
from policyc.backends.report.verdicts import decider_words
from policyc.ir.counts import counted
from policyc.ir.results.common import Place
from policyc.ir.results.places import places_of
from policyc.ir.results.replay import ReplayedFlow, ReplayKind, ReplayResult, Tally

LEVELS = {
    ReplayKind.DENIED: Level.ERROR,
    ReplayKind.CLOSED: Level.ERROR,
    ReplayKind.OPENED: Level.WARNING,
    ReplayKind.UNDECIDED: Level.ERROR,
}


def replay_headline(result: ReplayResult) -> str:
    """The numbers of observed flows: all, and those of each verdict."""
    total = result.tally("total")
    said = [f"{_tally(result.tally(name))} {name}" for name in ("allowed", "denied")]
    if result.tally("undecided").flows:
        said.append(f"{_tally(result.tally('undecided'))} undecided")
    if result.before:
        said += [f"{_tally(result.tally(name))} {name}" for name in ("closed", "opened")]
    n_unplaced = sum(each.count for each in result.unplaced)
    tail = f"; {n_unplaced} observations not placed" if n_unplaced else ""
    return f"{counted(total.flows, 'flow')}, observed {_times(total.observed)}: {', '.join(said)}{tail}"


def _tally(tally: Tally) -> str:
    return f"{tally.flows} ({_times(tally.observed)})" if tally.flows else "none"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def flow_title(flow: ReplayedFlow) -> str:
    """The kind, the number of observations, and the flow."""
    then = ""
    if flow.n_denied:
        some = "also" if flow.n_denied >= flow.count else _times(flow.n_denied)
        then = f", {some} denied when observed"
    return f"{flow.kind.value}: {flow_words(flow.flow)}: {_times(flow.count)}{then}"


def flow_lines(flow: ReplayedFlow) -> Iterator[str]:
    """The deciding rules of a flow, or why it is undecided."""
    for each in flow.decided:
        head = f"{each.label}: " if each.label else ""
        did = "denied" if each.is_denied else "allowed"
        yield f"{head}{did} at {each.end}: {decider_words(each.decider)}"
    for why in flow.depends_on:
        yield f"undecided: {why}"
    yield f"first observed: {flow.span}"


def left_out_lines(result: ReplayResult) -> Iterator[str]:
    """What was read and not replayed."""
    for each in result.unplaced:
        yield f"not placed: {each.count}: {each.why} (first: {result.file}:{each.line})"
    for each in result.skipped:
        yield f"skipped: {each.count} {each.why}"
    if result.unknown:
        yield f"skipped: {counted(result.unknown, 'line')} not understood"


def omitted_words(result: ReplayResult) -> str:
    """The number of flows that are not shown, or nothing."""
    return f"{counted(result.omitted, 'more flow')} not shown; --all shows every flow"


def replay_entries(result: ReplayResult) -> Iterator[Entry]:
    """An entry for each flow that is shown, at the rule or policy that denies it."""
    for flow in result.flows:
        is_open = flow.kind is ReplayKind.UNDECIDED
        yield Entry(
            LEVELS[flow.kind] if flow.is_finding else Level.NOTE,
            f"observed-{flow.kind.value}",
            flow_title(flow),
            next((place.span for place in reversed(flow_places(flow))), None),
            tuple(flow_lines(flow)),
            not is_open,
        )


def flow_places(flow: ReplayedFlow) -> list[Place]:
    """The deciding rules and isolating policies, those of the old policies first."""
    return [place for each in flow.decided for place in places_of(each.decider)]
