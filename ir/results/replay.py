# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc replay`. Data only."""

from dataclasses import dataclass
from enum import Enum

from policyc.ir.results.common import UniverseUsed
from policyc.ir.semantics import Decider
from policyc.ir.spans import Span
from policyc.ir.universe import Flow


class ReplayKind(Enum):
    """What the policies do to an observed flow."""

    DENIED = "denied"
    """The policies deny it; there are no old policies to compare with."""
    CLOSED = "closed"
    """The old policies allow it, the new ones deny it."""
    OPENED = "opened"
    """The old policies deny it, the new ones allow it."""
    UNDECIDED = "undecided"
    """The verdict depends on what policyc does not know."""


@dataclass(frozen=True, slots=True)
class EndDecided:
    """The decider at one end under the policies `label` (`before`, `after` or empty)."""

    label: str
    end: str  # egress or ingress
    is_denied: bool
    decider: Decider


@dataclass(frozen=True, slots=True)
class ReplayedFlow:
    """A flow and how often it was observed; `n_denied` times it was denied then. `span`: first time.

    `depends_on` says why it is undecided.
    """

    kind: ReplayKind
    flow: Flow
    count: int
    n_denied: int
    span: Span
    decided: tuple[EndDecided, ...] = ()
    depends_on: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        """Whether it changes something: denied then and now does not."""
        return self.kind is not ReplayKind.DENIED or self.count > self.n_denied


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Records that are not replayed: the reason, their number, and the line of the first, or 0."""

    why: str
    count: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Different flows, and how often they were observed."""

    flows: int
    observed: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The answer to `policyc replay`. `flows` are cut by --limit; `omitted` counts the others.

    `tallies` has `total`, `allowed` and `denied` of the new policies, `undecided` of either, and
    `closed` and `opened`. `unknown` counts lines that are not understood and were to be skipped.
    """

    file: str
    form: str
    before: str
    after: str
    universe: UniverseUsed
    method: str
    n_records: int
    tallies: tuple[tuple[str, Tally], ...]
    flows: tuple[ReplayedFlow, ...]
    omitted: int
    n_findings: int
    skipped: tuple[LeftOut, ...] = ()
    unplaced: tuple[LeftOut, ...] = ()
    unknown: int = 0

    def tally(self, name: str) -> Tally:
        """One of the tallies; zero if there is none."""
        return dict(self.tallies).get(name, Tally(0, 0))
