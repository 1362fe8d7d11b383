# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc diff`. Data only."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from policyc.ir.policy import Direction
from policyc.ir.results.common import Evidence, OpaquePart, Place, UniverseUsed, Witness


class DiffOutcome(Enum):
    """How the new policies stand to the old ones."""

    EQUAL = "equal"
    """No flow's verdict differs."""
    WIDENED = "widened"
    """Some flow that was denied is allowed, none the other way round."""
    NARROWED = "narrowed"
    """Some flow that was allowed is denied, none the other way round."""
    BOTH = "both"
    """Some flows were opened and others closed."""
    CHANGED = "changed"
    """The same flows get through, but an effect, or how a flow is refused, differs."""
    UNDECIDED = "undecided"
    """A solver gave up: never to be taken for equal."""


class DifferenceKind(Enum):
    """What became of the flows of one region."""

    WIDENED = "widened"
    """Denied before, allowed after."""
    NARROWED = "narrowed"
    """Allowed before, denied after."""
    CHANGED = "changed"
    """The same flows get through; an effect, or deny against reject, differs."""
    LATENT = "latent"
    """One end's verdict differs, the connection's does not: its other end denies it before and after."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A region of flows that one change opens or closes, in words, and a witness in it.

    `src`, `dst` and `services` are the region in words. `direction` is the policy direction that
    differs, None where both do. `before` and `after` are the rules or policies that decided the witness
    on each side, empty where no policy did. `n_pairs` counts the pairs of pods where that is known.
    """

    kind: DifferenceKind
    src: str
    dst: str
    services: tuple[str, ...]
    direction: Direction | None
    witness: Witness
    before: tuple[Place, ...] = ()
    after: tuple[Place, ...] = ()
    n_pairs: int | None = None

    @property
    def key(self) -> str:
        """The identity that survives line moves: the region, and what decided it."""
        decided = (place.words for place in (*self.before, *self.after))
        direction = "" if self.direction is None else self.direction.value
        return "|".join(
            (self.kind.value, direction, self.src, self.dst, ",".join(self.services), *decided)
        )


@dataclass(frozen=True, slots=True)
class RegionCount:
    """How many regions of one kind were found, shown or not.

    Not `is_complete`: the search stopped before the end, and there are at least so many.
    """

    kind: DifferenceKind
    number: int
    is_complete: bool = True


Counts = tuple[RegionCount, ...]
"""One count for each kind, in the order of DifferenceKind."""


def counts_of(
    kinds: Iterable[DifferenceKind], incomplete: Container[DifferenceKind] = ()
) -> Counts:
    """The counts of all regions that were found, given the kind of each."""
    found = Counter(kinds)
    return tuple(RegionCount(kind, found[kind], kind not in incomplete) for kind in DifferenceKind)


NONE_FOUND = counts_of(())


def left_out(counts: Counts, shown: Iterable[Difference]) -> Counts:
    """The counts of the regions that are not among `shown`."""
    among = Counter(difference.kind for difference in shown)
    return tuple(replace(each, number=each.number - among[each.kind]) for each in counts)


def n_regions(counts: Counts) -> int:
    """How many regions there are of all kinds together."""
    return sum(each.number for each in counts)


@dataclass(frozen=True, slots=True)
class DiffResult:
    """The answer to `policyc diff`.

    `differences` are the regions shown, `counts` count all that were found. `before` and `after` are
    how the user named the two sides. `notes` are further sentences (workloads that changed, policies
    that select nothing). `undecided` says why, where the outcome is UNDECIDED.
    """

    outcome: DiffOutcome
    universe: UniverseUsed
    evidence: Evidence
    differences: tuple[Difference, ...] = ()
    counts: Counts = NONE_FOUND
    notes: tuple[str, ...] = ()
    before: str = "OLD"
    after: str = "NEW"
    undecided: str = ""
    possible: tuple[Difference, ...] = ()
    possible_counts: Counts = NONE_FOUND
    opaque: tuple[OpaquePart, ...] = ()

    @property
    def omitted(self) -> Counts:
        """The counts of the regions that were found and are not shown."""
        return left_out(self.counts, self.differences)
