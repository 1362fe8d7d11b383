# SPDX-License-Identifier: Apache-2.0
"""Plots and tables of benchmark results: `python tests/bench/plots.py RESULT.json PREFIX`.

Writes PREFIX.svg and PREFIX.png with the same contents, and PREFIX.md.
"""

import json
import sys
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
    rcParams["svg.fonttype"] = "none"
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


def table_policy(result: dict[str, Any], path: Path) -> None:
    """The same as a table in Markdown: medians in ns, build time, object size."""
    machine = result["machine"]
    lines = [
        "<!-- written by tests/bench/plots.py -->",
        f"Linux {machine['kernel']}, {machine['cpu']}; medians of {result['rounds']} rounds, ns net of"
        " fetching the flow.",
        "",
        "| rules | build | asked | hot | uniform | cold | build CPU s | load CPU s | object bytes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shown: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in result["rows"]:
        if "refused" in row:
            lines.append(
                f"| {row['case']} | {TITLES[row['contender']]} | refused: {row['refused']} |"
            )
            continue
        line = shown.setdefault((row["case"], row["contender"], row["question"]), {"row": row})
        line[row["way"]] = row["ns"]
    for (case, contender, question), line in shown.items():
        numbers = " | ".join(f"{max(line[way], 0):,.0f}" for way in ("hot", "uniform", "cold"))
        row = line["row"]
        built = f"{row['build_cpu_s']:.2f} | {row['load_cpu_s']:.2f} | {row['object_bytes']:,}"
        lines.append(f"| {case} | {TITLES[contender]} | {question} | {numbers} | {built} |")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    plot_policy(found, Path(sys.argv[2]))
    table_policy(found, Path(sys.argv[2]).with_suffix(".md"))
