# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc prove`: for each part of a bundle, whether it was proved. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.results.common import UniverseUsed


class ProofStatus(Enum):
    """The status of a part or, by the worst of its parts, of a bundle."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class ProvedPart:
    """One arrow from the policies to the bytes: `lemma` names it, `what` describes it in words.

    `claims` counts what was shown; `faults` say what is wrong, or why nothing can be concluded.
    """

    lemma: str
    what: str
    status: ProofStatus
    claims: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProveResult:
    """The parts of a bundle's proof, the universe, and the solvers ((name, version))."""

    bundle: str
    universe: UniverseUsed
    parts: tuple[ProvedPart, ...]
    solvers: tuple[tuple[str, str], ...]
    assumptions: tuple[str, ...]

    @property
    def status(self) -> ProofStatus:
        """REFUTED if a part is; else UNDECIDED if a part is; else PROVED."""
        found = {part.status for part in self.parts}
        for status in (ProofStatus.REFUTED, ProofStatus.UNDECIDED):
            if status in found:
                return status
        return ProofStatus.PROVED
