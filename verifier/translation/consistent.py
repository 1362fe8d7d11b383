# SPDX-License-Identifier: Apache-2.0
"""Models in which equal keys of a table find equal words, also in lookups that were not unified.

A lookup of the program whose key does not always equal a key of the reading has a word variable of its
own. A model may give both variables different words at one key, which no table does. Such pairs are
forbidden as they occur.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from policyc.verifier.bytecode.evaluation import evaluate, known
from policyc.verifier.bytecode.nodes import VARIABLE, Node, below
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.translation.inputs import Spot
from policyc.verifier.translation.solving import Model, Solving, UndecidedError

ROUNDS = 100
"""The number of rounds of forbidding pairs before the solver gives up."""


@dataclass(frozen=True)
class Found:
    """The content of a spot, wherever the guard holds."""

    guard: Truth
    spot: Spot
    found: Node


@dataclass
class Consistent:
    """Models that tables can have, for the results of some lookups."""

    domain: TermDomain
    solving: Solving
    looks: Sequence[Found]
    _forbidden: list[Truth] = field(default_factory=list)

    def model(self, goal: Truth) -> Model | None:
        """A model of the goal; None if there is none. UndecidedError."""
        for _ in range(ROUNDS):
            model = self.solving.model(self.domain.all_of((goal, *self._forbidden)))
            if model is None:
                return None
            clashes = list(_clashes(self.looks, model))
            if not clashes:
                return model
            self._forbidden += (_never(self.domain, one, other) for one, other in clashes)
        raise UndecidedError("models keep having two words in one place")


def differ(domain: TermDomain, one: Spot, other: Spot) -> Truth:
    """Whether two spots are different ones."""
    if one.map != other.map or (one.offset is None) != (other.offset is None):
        return True
    width = _width(one.key, other.key)
    same = domain.equal(one.key, other.key, width)
    if one.offset is not None and other.offset is not None:
        same = domain.both(same, domain.equal(one.offset, other.offset, 32))
    return domain.no(same)


def _width(one: Bits, other: Bits) -> int:
    """The width of the keys of one map; between two known keys it does not matter."""
    return next((each.width for each in (one, other) if isinstance(each, Node)), 32)


def _never(domain: TermDomain, one: Found, other: Found) -> Truth:
    """Forbid two contents of one spot."""
    if one.found.width:
        apart = domain.no(domain.equal(one.found, other.found, one.found.width))
    else:
        apart = domain.no(domain.same(one.found, other.found))
    same = domain.no(differ(domain, one.spot, other.spot))
    return domain.no(domain.all_of((one.guard, other.guard, same, apart)))


def _clashes(looks: Sequence[Found], model: Model) -> Iterator[tuple[Found, Found]]:
    """Pairs that have different contents for one spot."""
    nodes = below(*(each for look in looks for each in _terms(look)))
    values = {node: 0 for node in nodes if node.op is VARIABLE}
    values.update(model)
    evaluate(nodes, values)
    there: dict[tuple[str, int, int | None], Found] = {}
    for look in looks:
        if not known(look.guard, values):
            continue
        offset = None if look.spot.offset is None else known(look.spot.offset, values)
        first = there.setdefault((look.spot.map, known(look.spot.key, values), offset), look)
        if values[first.found] != values[look.found]:
            yield first, look


def _terms(look: Found) -> Iterator[Node]:
    parts = (look.guard, look.spot.key, look.spot.offset, look.found)
    return (each for each in parts if isinstance(each, Node))
