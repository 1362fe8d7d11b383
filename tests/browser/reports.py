# SPDX-License-Identifier: Apache-2.0
"""Reports that browser tests open: small ones of the command line, and one of 500 ends."""

import shutil
from dataclasses import replace
from pathlib import Path

from policyc.backends.report.render import render
from policyc.ir.intervals import IntervalSet
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.diff import DifferenceKind, counts_of
from policyc.ir.results.regions import EndGroups, RegionParts, ServicePart
from policyc.ir.results.report import Report
from tests.end_to_end.command import policyc_here
from tests.unit.backends import samples

SHOP = Path(__file__).parents[2] / "examples" / "online-shop"
HOSTILE = "</script><img src=x onerror=alert(1)>"
KINDS = tuple(DifferenceKind)


def make_reports(folder: Path) -> None:
    """`change.html`, `symbolic.html`, `set.html`, `large.html`, `hostile.html`, and `wrong.html`."""
    shutil.copytree(SHOP / "policies", folder / "new")
    (folder / "new" / "payments.yaml").unlink()
    sides = (str(SHOP / "policies"), "new")
    cluster = ("--cluster", str(SHOP / "cluster"))
    for name, words in (
        ("change", (*sides, *cluster)),
        ("symbolic", sides),
        ("set", (str(SHOP / "policies"), *cluster)),
        ("wrong", ("nowhere",)),
    ):
        policyc_here("report", *words, "-o", f"{name}.html", cwd=folder)
    (folder / "large.html").write_text(large(500), encoding="utf-8")
    (folder / "hostile.html").write_text(hostile(), encoding="utf-8")


def hostile() -> str:
    """Names that would be elements, and open questions in every part."""
    answers = (samples.diff(HOSTILE), samples.check(HOSTILE), samples.verify(HOSTILE))
    opened = counts_of([DifferenceKind.WIDENED])
    possible = (samples.difference(HOSTILE),)
    undecided = replace(answers[0], possible=possible, possible_counts=opened)
    report = Report(HOSTILE, HOSTILE, answers[1], undecided, intents=answers[2])
    return render(report, "html")


def large(n_ends: int) -> str:
    """As many groups as ends, each in a region of its own as a source and as a destination."""
    services = (ServicePart(IntervalSet.of([(0, 9)])),)
    found = [
        replace(
            samples.difference(f"end {at}", KINDS[at % len(KINDS)]),
            parts=RegionParts(
                EndGroups((at,), ()),
                EndGroups(tuple((at * k) % n_ends for k in range(1, 60)), ()),
                services,
            ),
        )
        for at in range(n_ends)
    ]
    diff = replace(
        samples.diff(),
        differences=tuple(found),
        counts=counts_of(each.kind for each in found),
        universe=UniverseUsed("cluster", "500 pods"),
        groups=tuple((f"shop/pod-{at}",) for at in range(n_ends)),
    )
    return render(Report("old", "new", samples.CLEAN, diff), "html")
