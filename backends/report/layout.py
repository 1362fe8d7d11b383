# SPDX-License-Identifier: Apache-2.0
"""The layout of each part of a plan, and the reason for it: `policyc compile --explain-layout`."""

from collections.abc import Iterator, Sequence

from policyc.backends.ebpf_c import costs
from policyc.backends.ebpf_c.choice import Candidate, Choice
from policyc.ir.plan import LookupPlan

UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def explain_layout(plan: LookupPlan, choices: Sequence[Choice], endpoints: int) -> str:
    """Each part with its candidates: predicted ns, instructions, bytes of its maps.

    `endpoints` is the number of endpoints in the cluster. Their classes compete for the caches.
    """
    return "\n".join([*_lines(plan, choices), *_totals(plan, choices, endpoints)])


def _lines(plan: LookupPlan, choices: Sequence[Choice]) -> Iterator[str]:
    yield "ns: net of an empty program, the mean of hot and random keys; instructions: of the code"
    for direction in plan.directions.values():
        if not direction.is_used:
            yield f"{direction.direction.value}: no policy applies, so there is no lookup"
    for choice in choices:
        yield f"{choice.part}: {choice.chosen}{' (requested)' if choice.was_asked_for else ''}"
        for candidate in choice.candidates:
            mark = "*" if candidate.name == choice.chosen else " "
            yield f"  {mark} {candidate.name}: {_costs(candidate)}"
    told = ", ".join(kind.name for kind in sorted(plan.distinguished)) or "none"
    yield f"protocols whose ports or types rules read: {told}"
    yield f"counted for each rule: {plan.counters.value}"


def _totals(plan: LookupPlan, choices: Sequence[Choice], endpoints: int) -> Iterator[str]:
    """The predicted cost of a verdict: classes, address, cell and diagram, one after the other."""
    diagrams = _chosen(choices[-1]).ns if choices else 0.0
    for direction in plan.used_directions:
        name = direction.direction.value
        own = {
            choice.part: _chosen(choice).ns for choice in choices if choice.part.startswith(name)
        }
        cells = sum(ns for part, ns in own.items() if "cells" in part) + diagrams
        classes = costs.ARRAY.at(max(1, endpoints) * 4 * len(plan.class_fields))
        words = [f"with a pod {2 * classes + cells:.0f} ns"]
        for family in direction.addresses:
            ns = next(ns for part, ns in own.items() if f"IPv{family}" in part)
            words.append(f"with an external IPv{family} address {classes + ns + cells:.0f} ns")
        yield f"predicted for an {name} verdict: {', '.join(words)}"


def _chosen(choice: Choice) -> Candidate:
    return next(c for c in choice.candidates if c.name == choice.chosen)


def _costs(candidate: Candidate) -> str:
    words = [f"{candidate.ns:.1f} ns", f"about {candidate.instructions} instructions"]
    if candidate.table_bytes:
        words.append(size_in_words(candidate.table_bytes))
    if candidate.refused:
        words.append(f"refused: {candidate.refused}")
    return ", ".join(words)


def size_in_words(size: int) -> str:
    """Bytes as `2.1 MiB`, `12 KiB` or `64 bytes`."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"
