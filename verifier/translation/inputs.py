# SPDX-License-Identifier: Apache-2.0
"""Sample flows and table contents, random and from models: they show that two terms are not equal.

A table always gives the same word for a key, so lookups with one key find one word. Agreement on the
samples proves nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from policyc.ir.trees import (
    ALLOW,
    FAN,
    LEAF,
    NEXT_WORD,
    RANGE,
)
from policyc.verifier.bytecode.evaluation import value_of
from policyc.verifier.bytecode.nodes import EQ, ITE, VARIABLE, Node
from policyc.verifier.bytecode.values import Bits, Truth, mask
from policyc.verifier.translation.solving import Model

BY_CHANCE = 32
_KINDS = (0, 0, 0, LEAF, LEAF | ALLOW, NEXT_WORD, FAN, RANGE)
"""The possible top bits of table words."""


@dataclass(frozen=True)
class Spot:
    """The place of a lookup: a map, a key and an offset; the offset None tests presence."""

    map: str
    key: Bits
    offset: Bits | None


@dataclass
class Inputs:
    """The values of terms for each input, computed on demand."""

    own: frozenset[Node] = frozenset()
    """Variables for table contents whose place is not known."""
    _looks: dict[Node, Spot] = field(default_factory=dict)
    _values: list[dict[Node, int]] = field(default_factory=lambda: [{} for _ in range(BY_CHANCE)])
    _hints: dict[Node, set[int]] = field(default_factory=lambda: defaultdict(set))

    def learn(self, found: Node, spot: Spot) -> None:
        """Record that a variable is the content of a table at a spot."""
        self._looks.setdefault(found, spot)

    def is_found(self, variable: Node) -> bool:
        """Whether a variable is the content of a table."""
        return variable in self._looks or variable in self.own

    def add(self, model: Model) -> None:
        """Add an input in which a solver gave values to some variables."""
        self._values.append(dict(model))

    def take_hints(self, nodes: Iterable[Node]) -> None:
        """Try numbers that variables are compared with more often than other numbers."""
        for node in nodes:
            if node.op is EQ and type(node.args[1]) is int and node.args[0].op is VARIABLE:
                self._hints[node.args[0]].add(node.args[1])

    def reach(self, truth: Truth) -> bool:
        """Whether it holds for one of the inputs."""
        if not isinstance(truth, Node):
            return bool(truth)
        return any(self._value(truth, at) for at in range(len(self._values) - 1, -1, -1))

    def all_of(self, node: Node) -> tuple[int, ...]:
        """The value of a term for each random input."""
        return tuple(self._value(node, at) for at in range(BY_CHANCE))

    def _value(self, root: Node, at: int) -> int:
        values = self._values[at]
        work = [root]
        while work:
            node = work[-1]
            if node in values:
                work.pop()
                continue
            missing = [each for each in self._needed(node, values) if each not in values]
            if missing:
                work += missing
                continue
            work.pop()
            is_variable = node.op is VARIABLE
            values[node] = self._given(node, at) if is_variable else value_of(node, values)
        return values[root]

    def _needed(self, node: Node, values: dict[Node, int]) -> Iterator[Node]:
        if node.op is ITE and node.args[0] in values:  # of a choice, one arm alone
            arm = node.args[1] if values[node.args[0]] else node.args[2]
            return iter((arm,) if isinstance(arm, Node) else ())
        if node.op is ITE:
            return iter(node.args[:1])
        look = self._looks.get(node)
        if look is None:
            return node.children
        return (each for each in (look.key, look.offset) if isinstance(each, Node))

    def _given(self, variable: Node, at: int) -> int:
        """A random value, the same for the same key of the same table."""
        spot, values = self._looks.get(variable), self._values[at]
        if spot is None:
            dice = Random(f"{at} {variable.args[0]}")
            hints = sorted(self._hints.get(variable, ()))
            if hints and dice.random() < 0.7:
                return dice.choice(hints)
            return _some(dice, variable.width)
        key, offset = (
            values[each] if isinstance(each, Node) else each for each in (spot.key, spot.offset)
        )
        dice = Random(f"{at} {spot.map} {key} {offset}")
        if not variable.width:
            return int(dice.random() < 0.2)
        return dice.choice(_KINDS) | dice.getrandbits(6 if dice.random() < 0.6 else 29)


def _some(dice: Random, width: int) -> int:
    """A random number; small ones are more likely."""
    if not width:
        return dice.getrandbits(1)
    return dice.getrandbits(width) if dice.random() < 0.4 else dice.randrange(4) & mask(width)
