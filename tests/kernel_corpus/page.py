# SPDX-License-Identifier: Apache-2.0
"""docs/verifier-budget.md: the contents of budget.json in Markdown."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kernel_corpus.budget import COUNTS, VERIFIER_LIMIT, bound, most
from tests.kernel_corpus.case import BUNDLES

PAGE = Path(__file__).parents[2] / "docs" / "verifier-budget.md"
HEAD = """\
# Verifier cost of each bundle

    make test-kernels    # load every bundle on three kernels, and compare with this page (minutes, root)
    make kernel-table    # record the numbers again

`make test-kernels` compiles {cases} cases with each backend: {n} bundles. It loads them on this
machine's kernel and, in QEMU, on Debian's 6.1 (the oldest supported kernel) and 6.12. It asks some
bundles for verdicts. The run fails if

- a kernel does not load a bundle,
- a verdict differs from the reference semantics,
- a program exceeds its bound,
- or a bundle has no row on this page.

A **bound** is the count on the most demanding kernel, plus a tenth, plus 64. Counts do not depend on the
speed of the machine. `make kernel-table` writes tests/kernel_corpus/budget.json and this page.

The verifier rejects a program after {limit:,} instructions. The highest count on this page is {most:,}
({share} %), for `{worst}`.

- **instructions**: The instructions of the program after the kernel's translation.
- **verified**: The instructions that the verifier processed. Each visit counts.
- **maps**: The memory of the generation's own maps when they are full. A per-CPU map counts for one CPU.
- **(llvm)**: The bundle is made by the LLVM backend, with the prebuilt hooks.

A cell has one number for each kernel, in this order:
{kernels}.
"""
REFUSED = "refused: {why}"


def page(table: Mapping[str, Any]) -> str:
    """The page, with a newline at its end."""
    rows: Mapping[str, Any] = table["bundles"]
    kernels = list(table["kernels"])
    shared = [program for program in _programs(rows) if _is_the_same(rows, program)]
    worst, count = _worst(rows)
    head = HEAD.format(
        n=len(rows),
        cases=len(rows) // len(BUNDLES),
        limit=VERIFIER_LIMIT,
        most=count,
        share=round(100 * count / VERIFIER_LIMIT, 1),
        worst=worst,
        kernels=", ".join(f"{name} ({table['kernels'][name]})" for name in kernels),
    )
    parts = [head]
    if shared:
        parts.append(
            "\n".join(
                [
                    "## Programs that are the same in every bundle",
                    *_shared(rows, shared, kernels),
                    "",
                ]
            )
        )
    parts.append("\n".join(["## Cost by bundle", *_bundles(rows, shared, kernels), ""]))
    parts.append("\n".join(["## Cases", *_cases(rows), ""]))
    return "\n".join(parts)


def _programs(rows: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(program for row in rows.values() for program in row["programs"]))


def _is_the_same(rows: Mapping[str, Any], program: str) -> bool:
    found = [row["programs"].get(program) for row in rows.values() if not row["refused"]]
    return all(each == found[0] for each in found)


def _worst(rows: Mapping[str, Any]) -> tuple[str, int]:
    """The program with the highest count of verified instructions, and that count."""
    count, name, program = max(
        (most(row, program, "verified"), name, program)
        for name, row in rows.items()
        for program in row["programs"]
    )
    return f"{program}` of `{name}", count


def _shared(rows: Mapping[str, Any], programs: list[str], kernels: list[str]) -> Iterator[str]:
    row = next(row for row in rows.values() if not row["refused"])
    yield "| program | instructions | bound | verified | bound |"
    yield "|---|---|---|---|---|"
    for program in programs:
        yield f"| `{program}` | {' | '.join(_numbers(row, program, kernels))} |"


def _bundles(rows: Mapping[str, Any], shared: list[str], kernels: list[str]) -> Iterator[str]:
    yield "| bundle | program | instructions | bound | verified | bound | maps |"
    yield "|---|---|---|---|---|---|---|"
    for name, row in rows.items():
        if row["refused"]:
            why = REFUSED.format(why=row["refused"])
            yield f"| {name} | {why} | | | | | |"
        for program in row["programs"]:
            if program not in shared:
                numbers = " | ".join(_numbers(row, program, kernels))
                size = f"{row['map_bytes'] / 1024:,.0f} KiB"
                yield f"| {name} | `{program}` | {numbers} | {size} |"


def _cases(rows: Mapping[str, Any]) -> Iterator[str]:
    """One line for each case; its bundles of both backends share the description."""
    described = {name.removesuffix(" (llvm)"): row["what"] for name, row in rows.items()}
    for name, what in described.items():
        yield f"- **{name}**: {what}"


def _numbers(row: Mapping[str, Any], program: str, kernels: list[str]) -> Iterator[str]:
    """For each count: its number on each kernel, then the bound."""
    for count in COUNTS:
        of_kernels = row["programs"][program]
        yield " ".join(
            f"{of_kernels[kernel][count]:,}" if kernel in of_kernels else "-" for kernel in kernels
        )
        yield f"{bound(most(row, program, count)):,}"
