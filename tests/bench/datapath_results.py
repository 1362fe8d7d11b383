# SPDX-License-Identifier: Apache-2.0
"""What datapath.py measured, as rows, a table and a plot."""

import statistics
from pathlib import Path
from typing import Any

from goals import goal_table
from matplotlib import pyplot, rcParams

WHAT = {
    "udp": "UDP, 64 bytes there and back",
    "request": "TCP, 64 bytes there and back",
    "connect": "a TCP connection with one request",
    "http": "an HTTP request, nginx and ab",
    "keepalive": "an HTTP request, connection kept",
    "stream": "TCP, 64 KiB one way",
}
SHORT = {
    "udp": "UDP",
    "request": "TCP",
    "connect": "connect",
    "http": "HTTP",
    "keepalive": "HTTP kept",
    "stream": "stream",
}
"""The same, as heads of columns."""
COLOURS = {"plain": "#888888", "one": "#bbbbbb", "this": "#1b6ca8"}
"""By the first word of a bed's name."""
OTHERS = "#b23a48"

Traffic = tuple[int, str]
"""An address family and a way of `WHAT`."""
Measured = dict[Traffic, dict[str, list[float]]]
"""Traffic, bed -> nanoseconds of CPU for an operation, round by round. Plain routing is the first."""


def all_traffic(families: str, ways: str) -> list[Traffic]:
    """Of comma-separated lists: each way with each family."""
    return [(int(family), way) for family in families.split(",") for way in ways.split(",")]


def row(traffic: Traffic, name: str, found: Measured) -> dict[str, Any]:
    """The ratio of a bed to plain routing, round by round, and its median and quartiles."""
    plain, own = next(iter(found[traffic].values())), found[traffic][name]
    ratios = [mine / theirs for mine, theirs in zip(own, plain, strict=True)]
    low, middle, high = quartiles(ratios)
    family, way = traffic
    return {"family": family, "way": way, "bed": name, "ratio": middle, "low": low, "high": high,
            "cpu_ns": statistics.median(own), "ratios": ratios}  # fmt: skip


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def table(result: dict[str, Any]) -> str:
    """Markdown: a row for each bed, a column for each way."""
    machine, rows = result["machine"], result["rows"]
    lines = [
        "<!-- written by tests/bench/datapath.py -->",
        f"Linux {machine['kernel']}, {machine['cpu']}.",
        *head(result),
        *grid(rows),
        "",
        *goal_table(rows, WHAT),
    ]
    return "\n".join(lines) + "\n"


def head(result: dict[str, Any]) -> list[str]:
    """What the figures are, and the table's head: a column for each way and family."""
    columns = _columns(result["rows"])
    shown = [f"{SHORT[way]}, IPv{family}" for family, way in columns]
    return [
        "CPU time of an operation over that of plain routing,"
        f" medians of {result['rounds']} rounds [quartiles].",
        "",
        *(f"- {SHORT[way]}: {WHAT[way]}" for way in dict.fromkeys(way for _, way in columns)),
        "",
        f"| | {' | '.join(shown)} |",
        "|---" * (1 + len(shown)) + "|",
    ]


def _columns(rows: list[dict[str, Any]]) -> list[Traffic]:
    return list(dict.fromkeys((row["family"], row["way"]) for row in rows))


def grid(rows: list[dict[str, Any]]) -> list[str]:
    """The table's lines below its head."""
    columns = _columns(rows)
    of = {(row["bed"], row["family"], row["way"]): row for row in rows}
    lines = []
    for name in dict.fromkeys(row["bed"] for row in rows):
        cells = [
            f"{one['ratio']:.2f} [{one['low']:.2f}, {one['high']:.2f}]"
            for one in (of[name, *column] for column in columns)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def plot(result: dict[str, Any], prefix: Path) -> None:
    """A panel for each way, a bar for each bed, whiskers from quartile to quartile.

    It shows the first family of the run.
    """
    pyplot.switch_backend("Agg")
    rcParams["svg.fonttype"] = "none"
    rcParams["svg.hashsalt"] = "policyc"  # the same result gives the same file
    shown = [row for row in result["rows"] if row["family"] == result["rows"][0]["family"]]
    ways = list(dict.fromkeys(row["way"] for row in shown))
    names = list(dict.fromkeys(row["bed"] for row in shown))
    figure, panels = pyplot.subplots(
        1,
        len(ways),
        figsize=(3.2 * len(ways) + 2, 0.4 * len(names) + 1),
        squeeze=False,
        sharey=True,
    )
    for panel, way in zip(panels[0], ways, strict=True):
        rows = [row for row in shown if row["way"] == way]
        middles = [row["ratio"] for row in rows]
        spread = [
            [row["ratio"] - row["low"] for row in rows],
            [row["high"] - row["ratio"] for row in rows],
        ]
        colours = [COLOURS.get(row["bed"].split()[0], OTHERS) for row in rows]
        panel.barh(names, middles, xerr=spread, color=colours, error_kw={"linewidth": 0.8})
        panel.axvline(1, color="#444444", linewidth=0.8)
        panel.set_title(WHAT[way], fontsize="small")
    panels[0][0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(prefix.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(prefix.with_suffix(".png"), dpi=110)
    pyplot.close(figure)
