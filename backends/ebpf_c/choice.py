# SPDX-License-Identifier: Apache-2.0
"""A choice between layouts: the candidates with their predicted costs, and the chosen one."""

from collections.abc import Sequence

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """One layout of a part: predicted ns, instructions, bytes of its maps.

    `refused` is the reason if it is excluded, else "".
    """

    name: str
    ns: float
    instructions: int
    table_bytes: int = 0
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen layout of one part of the Decision IR, and its candidates."""

    part: str
    chosen: str
    candidates: tuple[Candidate, ...]
    was_asked_for: bool = False


def choose(part: str, candidates: Sequence[Candidate], asked: str | None) -> Choice | None:
    """The cheapest candidate that is not refused, or the requested one; None if there is none."""
    possible = [candidate for candidate in candidates if not candidate.refused]
    if asked is not None:
        wanted = [candidate for candidate in possible if candidate.name == asked]
        if wanted:
            return Choice(part, asked, tuple(candidates), was_asked_for=True)
    if not possible:
        return None
    best = min(possible, key=lambda candidate: candidate.ns)
    return Choice(part, best.name, tuple(candidates))
