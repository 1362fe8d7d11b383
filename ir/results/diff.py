# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc diff`. Data only."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from policyc.ir.policy import Direction
from policyc.ir.results.common import Evidence, OpaquePart, Place, UniverseUsed, Witness
from policyc.ir.results.objects import NO_CHANGES, ObjectChanges
from policyc.ir.results.regions import RegionParts


class DiffOutcome(Enum):
    """The relation of the new policies to the old ones."""

    EQUAL = "equal"
    """No flow's verdict differs."""
    WIDENED = "widened"
    """Some flow that was denied is allowed, and no flow changed the other way."""
    NARROWED = "narrowed"
    """Some flow that was allowed is denied, and no flow changed the other way."""
    BOTH = "both"
    """Some flows were opened and others closed."""
    CHANGED = "changed"
    """The same flows are allowed, but an effect, or deny against reject, differs."""
    UNDECIDED = "undecided"
    """A solver gave up: never to be read as "equal"."""


class DifferenceKind(Enum):
    """The change of the flows of one region."""

    WIDENED = "widened"
    """Denied before, allowed after."""
    NARROWED = "narrowed"
    """Allowed before, denied after."""
    CHANGED = "changed"
    """The same flows are allowed; an effect, or deny against reject, differs."""
    LATENT = "latent"
    """One end's verdict differs, the connection's does not: its other end denies it before and after."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A region of flows that one change opens or closes, in words, and a witness in it.

    `src`, `dst` and `services` are the region in words. `direction` is the policy direction that
    differs, None if both do. `before` and `after` are the rules or policies that decided the witness on
    each side, empty if no policy did. `n_pairs` counts the pairs of pods, if known. `parts` is the
    region as data, None for flows that nodes generate for their own pods.
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
    parts: RegionParts | None = None

    @property
    def subject(self) -> str:
        """The end whose policies changed, in words; both ends if both directions differ."""
        match self.direction:
            case Direction.INGRESS:
                return self.dst
            case Direction.EGRESS:
                return self.src
            case _:
                return f"{self.src} -> {self.dst}"

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
    """The number of regions of one kind that were found, shown or not.

    If not `is_complete`, the search stopped early, and the number is a lower bound.
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
    """The number of regions of all kinds together."""
    return sum(each.number for each in counts)


@dataclass(frozen=True, slots=True)
class DiffResult:
    """The answer to `policyc diff`.

    `differences` are the regions shown, `counts` count all that were found. `before` and `after` are the
    user's names of the two sides. `notes` are further sentences (workloads that changed, policies that
    select nothing). `undecided` is the reason if the outcome is UNDECIDED. `objects` are the changed
    policies. `groups` are the ends of a cluster that no rule distinguishes, by the number that regions
    have of them.
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
    objects: ObjectChanges = NO_CHANGES
    groups: tuple[tuple[str, ...], ...] = ()

    @property
    def omitted(self) -> Counts:
        """The counts of the regions that were found and are not shown."""
        return left_out(self.counts, self.differences)
