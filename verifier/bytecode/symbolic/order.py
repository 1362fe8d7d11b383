# SPDX-License-Identifier: Apache-2.0
"""The order in which places are run: all paths to a place arrive before it is run.

A weak topological order (Bourdoncle, 1993): the blocks of a loop lie together behind its head, and each
iteration comes before whatever follows the loop.
"""

from dataclasses import dataclass, field

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.program import Function

Key = tuple[int, ...]


@dataclass
class Order:
    """The places of a function's blocks: for each, the loops around it from the outermost on.

    `paths[b]` are positions, one for each loop around the block and the block's own at the end;
    `heads[b]` are the heads of these loops.
    """

    paths: dict[int, Key] = field(default_factory=dict)
    heads: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def rounds_after(self, source: int, target: int, rounds: Key) -> Key:
        """The iterations of each loop around `target`, on the edge from `source`."""
        before, behind = self.heads[source], self.heads[target]
        common = 0
        while common < min(len(before), len(behind)) and before[common] == behind[common]:
            common += 1
        kept = list(rounds[:common]) + [0] * (len(behind) - common)
        if common and behind[common - 1] == target and common == len(behind):
            kept[-1] += 1
        elif len(behind) > common and behind[-1] != target:
            raise UnmodelledError(f"a loop is entered at slot {target}, not at its head")
        return tuple(kept)

    def key(self, block: int, rounds: Key) -> Key:
        """The sort key of places: position, round, position, round, ..., position."""
        path, found = self.paths[block], []
        for at, position in enumerate(path):
            found.append(position)
            if at < len(rounds):
                found.append(rounds[at])
        return tuple(found)


def order_of(function: Function) -> Order:
    """The order of a function's blocks."""
    order = Order()
    everything = frozenset(function.blocks)
    _arrange(function, _components(function, 0, everything), (), (), order)
    return order


def _arrange(
    function: Function,
    components: list[frozenset[int]],
    path: Key,
    heads: tuple[int, ...],
    order: Order,
) -> None:
    """Number the blocks of components, which come one after the other."""
    for position, component in enumerate(components):
        head = _head(function, component)
        if head is None:
            (block,) = component
            order.paths[block], order.heads[block] = (*path, position), heads
            continue
        order.paths[head], order.heads[head] = (*path, position, 0), (*heads, head)
        inside = component - {head}
        below = Order()
        parts = _components_from(function, head, inside)
        _arrange(function, parts, (), (), below)
        for block in inside:
            first, *rest = below.paths[block]
            order.paths[block] = (*path, position, first + 1, *rest)
            order.heads[block] = (*heads, head, *below.heads[block])


def _head(function: Function, component: frozenset[int]) -> int | None:
    """The entry of a loop; None if a block is not a loop."""
    if len(component) == 1:
        (block,) = component
        return block if block in function.blocks[block].successors else None
    outside = (block for block in function.blocks.values() if block.start not in component)
    entered = {to for block in outside for to in block.successors if to in component}
    entered |= {0} & component
    if len(entered) != 1:
        raise UnmodelledError(f"{function.name}: a loop is entered in {len(entered)} places")
    return entered.pop()


def _components_from(function: Function, head: int, inside: frozenset[int]) -> list[frozenset[int]]:
    """The components of a loop's body, in order after its head."""
    found: list[frozenset[int]] = []
    seen: set[int] = set()
    for start in reversed(function.blocks[head].successors):
        if start in inside and start not in seen:
            new = _components(function, start, inside - seen)
            found = new + found
            seen |= {block for part in new for block in part}
    return found


def _components(function: Function, start: int, among: frozenset[int]) -> list[frozenset[int]]:
    """Strongly connected components reachable from a block, in topological order (Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[frozenset[int]] = []
    work: list[tuple[int, int]] = [(start, 0)]
    while work:
        block, at = work.pop()
        if at == 0:
            index[block] = low[block] = len(index)
            stack.append(block)
        targets = [to for to in function.blocks[block].successors if to in among]
        if at and (done := targets[at - 1]) in stack:
            low[block] = min(low[block], low[done])
        for place in range(at, len(targets)):
            if targets[place] not in index:
                work += [(block, place + 1), (targets[place], 0)]
                break
            if targets[place] in stack:
                low[block] = min(low[block], index[targets[place]])
        else:
            if low[block] == index[block]:
                at = stack.index(block)
                found.append(frozenset(stack[at:]))
                del stack[at:]
    return found[::-1]
