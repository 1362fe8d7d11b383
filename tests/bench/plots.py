# SPDX-License-Identifier: Apache-2.0
"""Plots of benchmark results, as SVG and PNG with the same contents."""

from pathlib import Path
from typing import Any

from matplotlib import pyplot, rcParams

STYLES = {"c": ("#1b6ca8", "o"), "llvm": ("#2a9d5c", "s"), "generic": ("#d98e04", "^"),
          "linear": ("#b23a48", "x")}  # fmt: skip
TITLES = {"c": "this project, C", "llvm": "this project, LLVM", "generic": "generic tries",
          "linear": "linear rules"}  # fmt: skip


def plot_policy(result: dict[str, Any], prefix: Path) -> None:
    """Verdict ns over the number of rules: a panel for each kind and way, both axes logarithmic."""
    pyplot.switch_backend("Agg")
    rcParams["svg.hashsalt"] = "policyc"  # the same result gives the same file
    rows = [row for row in result["rows"] if "ns" in row]
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = pyplot.subplots(
        len(ways), len(kinds), figsize=(4 * len(kinds), 3 * len(ways)), squeeze=False,
        sharex=True, sharey=True,
    )  # fmt: skip
    for y, way in enumerate(ways):
        for x, kind in enumerate(kinds):
            panel = panels[y][x]
            here = [row for row in rows if row["kind"] == kind and row["way"] == way]
            _panel(panel, here)
            panel.set_title(f"{kind}, {way}")
            if x == 0:
                panel.set_ylabel("ns a verdict, net")
            if y == len(ways) - 1:
                panel.set_xlabel("rules on the endpoint")
    panels[0][0].legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(prefix.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(prefix.with_suffix(".png"), dpi=110)
    pyplot.close(figure)


def _panel(panel: Any, rows: list[dict[str, Any]]) -> None:
    for contender, (colour, marker) in STYLES.items():
        for question, line in (("known", "--"), ("looked up", "-")):
            points = sorted(
                (row["rules"], max(row["ns"], 1.0))
                for row in rows
                if row["contender"] == contender and row["question"] == question
            )
            if points:
                label = f"{TITLES[contender]}, ends {question}"
                panel.plot(*zip(*points, strict=True), line, color=colour, marker=marker,
                           markersize=3, linewidth=1, label=label)  # fmt: skip
    panel.axhline(40, color="#888888", linewidth=0.8, linestyle=":")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(True, which="major", linewidth=0.3)
