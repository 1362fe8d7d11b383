# SPDX-License-Identifier: Apache-2.0
"""docs/verifier-budget.md: the table of budget.json in Markdown."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.kernel_corpus.budget import COUNTS, VERIFIER_LIMIT, bound, most
from tests.kernel_corpus.case import BUNDLES

PAGE = Path(__file__).parents[2] / "docs" / "verifier-budget.md"
HEAD = """\
# What every bundle costs the verifier

`make test-kernels` compiles {n} bundles, {cases} cases by each backend, loads them on this machine's
kernel and, in QEMU, on Debian's 6.1 (the oldest that is supported) and 6.12, asks some of them for
verdicts, and fails where a bundle

- is not loaded, or gives a verdict that the reference semantics does not give,
- exceeds its bound: what the table has for the most demanding kernel, a tenth more and 64,
- or has no row here.

It counts, so it does not depend on how fast a machine is. `make kernel-table` records the table again
(tests/kernel_corpus/budget.json) and writes this page. The verifier gives up at {limit:,} instructions;
the most of any program here is {most:,} ({share} %), in `{worst}`.

**Instructions** are those of the program after the kernel's translation, **verified** those that the
verifier went through, each as often as it did. Numbers of several kernels stand in the order
{kernels}.
Bundles marked (llvm) are what the LLVM backend makes, with the prebuilt hooks.
**Maps** is what the generation's own maps hold when full, of per-CPU maps one CPU's share.
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
            "\n".join(["## The same in every bundle", *_shared(rows, shared, kernels), ""])
        )
    parts.append("\n".join(["## Bundle by bundle", *_bundles(rows, shared, kernels), ""]))
    return "\n".join(parts)


def _programs(rows: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(program for row in rows.values() for program in row["programs"]))


def _is_the_same(rows: Mapping[str, Any], program: str) -> bool:
    found = [row["programs"].get(program) for row in rows.values() if not row["refused"]]
    return all(each == found[0] for each in found)


def _worst(rows: Mapping[str, Any]) -> tuple[str, int]:
    """The program that the verifier had most to do with, and how much that was."""
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
    yield "| bundle | what | program | instructions | bound | verified | bound | maps |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, row in rows.items():
        if row["refused"]:
            why = REFUSED.format(why=row["refused"])
            yield f"| {name} | {row['what']} | {why} | | | | | |"
        for program in row["programs"]:
            if program not in shared:
                numbers = " | ".join(_numbers(row, program, kernels))
                size = f"{row['map_bytes'] / 1024:,.0f} KiB"
                yield f"| {name} | {row['what']} | `{program}` | {numbers} | {size} |"


def _numbers(row: Mapping[str, Any], program: str, kernels: list[str]) -> Iterator[str]:
    """Per count: its numbers on each kernel, and the bound."""
    for count in COUNTS:
        of_kernels = row["programs"][program]
        yield " ".join(
            f"{of_kernels[kernel][count]:,}" if kernel in of_kernels else "-" for kernel in kernels
        )
        yield f"{bound(most(row, program, count)):,}"
