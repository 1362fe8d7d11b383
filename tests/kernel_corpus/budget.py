# SPDX-License-Identifier: Apache-2.0
"""The verifier cost of every bundle on each kernel, and the bounds that follow from it.

budget.json is what the last recording saw: per bundle why the compiler refuses it ("" if it does not),
the bytes of its maps, and per program and kernel series the instructions after translation and those
that the verifier went through. A bound is the most of any kernel and a tenth more; so a kernel that has
no column, such as another host's, is bounded as well.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kernel_corpus.case import BUNDLES

TABLE = Path(__file__).with_name("budget.json")
HOW = "if that is meant, record the table again: make kernel-table"
VERIFIER_LIMIT = 1_000_000
"""Instructions that a kernel's verifier goes through before it gives up."""
COUNTS = ("instructions", "verified")


def bound(most: int) -> int:
    """The bound of a recorded number: a tenth more, plus a constant for small numbers."""
    return most + most // 10 + 64


def series(release: str) -> str:
    """`6.1` of `6.1.0-56-amd64`."""
    found = re.match(r"\d+\.\d+", release)
    assert found, release
    return found[0]


@dataclass(frozen=True)
class Built:
    """What the compiler made: each bundle's sentence, and why it was refused or ""."""

    what: Mapping[str, str]
    refused: Mapping[str, str]


def read_built(folder: Path, names: Iterable[str]) -> Built:
    """From the build.json of the cases of these names, for the bundles of each."""
    read = {name: json.loads((folder / name / "build.json").read_text()) for name in names}
    records = {name + suffix: read[name] for name in read for suffix in BUNDLES}
    return Built(
        {name: record["what"] for name, record in records.items()},
        {name: record["refused"] for name, record in records.items()},
    )


def read_table() -> dict[str, Any]:
    """The table as it was recorded."""
    found: dict[str, Any] = json.loads(TABLE.read_text())
    return found


def make_table(built: Built, results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A table of these results, one of each kernel."""
    results = list(results)
    return {
        "kernels": {series(result["kernel"]): result["kernel"] for result in results},
        "bundles": {name: _row(name, built, results) for name in built.what},
    }


def _row(name: str, built: Built, results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"what": built.what[name], "refused": built.refused[name]}
    row |= {"map_bytes": 0, "programs": {}}
    for result in results:
        found = result["bundles"].get(name)
        if found is None:
            continue
        row["map_bytes"] = max(row["map_bytes"], found["map_bytes"])
        for program, numbers in found["programs"].items():
            kept = {count: numbers[count] for count in COUNTS}
            row["programs"].setdefault(program, {})[series(result["kernel"])] = kept
    return row


def write_table(table: Mapping[str, Any], path: Path = TABLE) -> None:
    """Write one line for each bundle, so that diffs are small."""
    rows = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table["bundles"].items()
    )
    path.write_text(
        f'{{\n "kernels": {json.dumps(table["kernels"])},\n "bundles": {{\n{rows}\n }}\n}}\n'
    )


def findings(
    table: Mapping[str, Any], built: Built, results: Iterable[Mapping[str, Any]]
) -> list[str]:
    """The faults in these results; empty if every bundle is within its bounds."""
    found = [text for name in built.what for text in _of_build(name, table["bundles"], built)]
    for result in results:
        found += _of_kernel(table["bundles"], built, result)
    return found


def _of_build(name: str, rows: Mapping[str, Any], built: Built) -> Iterable[str]:
    if name not in rows:
        yield f"{name}: has no row in {TABLE.name}; {HOW}"
    elif built.refused[name] and not rows[name]["refused"]:
        yield f"{name}: the compiler refuses it now: {built.refused[name]}"
    elif rows[name]["refused"] and not built.refused[name]:
        yield f"{name}: compiles now, and the table says that it is refused; {HOW}"


def _of_kernel(rows: Mapping[str, Any], built: Built, result: Mapping[str, Any]) -> Iterable[str]:
    kernel = result["kernel"]
    for name, refused in built.refused.items():
        if name in result["refused"]:
            yield f"{name}: Linux {kernel} refuses it: {result['refused'][name]}"
        elif not refused and name not in result["bundles"]:
            yield f"{name}: was not loaded on Linux {kernel}"
    for name, flows in result["wrong"].items():
        yield f"{name}: {len(flows)} wrong verdicts on Linux {kernel}, the first: {flows[0]}"
    for name, numbers in result["bundles"].items():
        if name in rows and not rows[name]["refused"]:
            yield from _over(name, rows[name], numbers, kernel)


def _over(
    name: str, row: Mapping[str, Any], numbers: Mapping[str, Any], kernel: str
) -> Iterable[str]:
    if numbers["map_bytes"] > bound(row["map_bytes"]):
        yield (
            f"{name}: {numbers['map_bytes']} bytes of maps on Linux {kernel}, the bound is"
            f" {bound(row['map_bytes'])}; {HOW}"
        )
    for program, counts in numbers["programs"].items():
        if program not in row["programs"]:
            yield f"{name}: {program} has no row in {TABLE.name}; {HOW}"
            continue
        for count in COUNTS:
            limit = bound(most(row, program, count))
            if counts[count] > limit:
                yield (
                    f"{name}: {program} has {counts[count]} {count} on Linux {kernel},"
                    f" the bound is {limit}; {HOW}"
                )


def most(row: Mapping[str, Any], program: str, count: str) -> int:
    """The largest recorded number of any kernel."""
    return max(int(numbers[count]) for numbers in row["programs"][program].values())
