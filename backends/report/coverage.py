# SPDX-License-Identifier: Apache-2.0
"""Coverage in words: how many workloads policies isolate, and which none isolates."""

from collections.abc import Iterator

from policyc.ir.counts import counted
from policyc.ir.results.coverage import Coverage, percent

MOST_NAMED = 10
"""The number of workloads that a line names unless all are asked for."""


def coverage_headline(coverage: Coverage) -> str:
    """How many workloads are isolated in each direction, also in percent."""
    number = coverage.n_workloads
    shares = ", ".join(
        f"{isolated} ({percent(isolated, number)}%) for {each.direction.value}"
        for each in coverage.directions
        for isolated in (number - len(each.open),)
    )
    pods = counted(number, "pod or workload", "pods and workloads")
    return f"of {pods}, policies isolate {shares}"


def coverage_lines(coverage: Coverage, limit: int | None) -> Iterator[str]:
    """The workloads that no policy isolates, and those that no policy can; None: all of them."""
    for each in coverage.directions:
        if each.open:
            yield f"not isolated for {each.direction.value}: {_some(each.open, limit)}"
    if coverage.host_network:
        named = _some(coverage.host_network, limit)
        yield f"in the network of their host, where policies do not apply: {named}"


def _some(names: tuple[str, ...], limit: int | None) -> str:
    shown = names if limit is None else names[:limit]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
