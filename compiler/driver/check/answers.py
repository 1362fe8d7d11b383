# SPDX-License-Identifier: Apache-2.0
"""The questions and answers of a check about rules, in whichever universe. Data only."""

from dataclasses import dataclass

from policyc.ir.peers import Network
from policyc.ir.results.common import Evidence
from policyc.ir.spans import Span
from policyc.verifier.cluster.redundancy import Useless
from policyc.verifier.cluster.rows import RuleId
from policyc.verifier.smt.solver_choice import Choice


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The universe, the solvers, and where the work is done (see `shards.map_shards`).

    `file`: only rules and policies of this file are proved useless, among all; empty: of every file.
    """

    is_symbolic: bool
    pod_networks: tuple[Network, ...] = ()
    timeout_ms: int | None = None
    solver: Choice = Choice.Z3
    jobs: int = 1
    executor: str = ""
    file: str = ""

    def asks_about(self, span: Span) -> bool:
        """Whether what is at a place may be found useless."""
        return not self.file or span.file == self.file


@dataclass(frozen=True, slots=True)
class Answers:
    """Rules that change nothing, each alone; `together` may all be removed at once, proved.

    `undecided` are questions that a solver gave up on, in words.
    """

    useless: tuple[Useless, ...]
    together: tuple[RuleId, ...]
    evidence: Evidence
    undecided: tuple[str, ...] = ()
