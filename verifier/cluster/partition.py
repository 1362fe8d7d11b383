# SPDX-License-Identifier: Apache-2.0
"""A check of the partition under the bit sets: no rule distinguishes two members of an atom.

Z3 checks address runs and service sets against the Policy IR's own words. The reference semantics'
`selects` checks the selectors, class by class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import z3

from policyc.ir.errors import InternalError
from policyc.ir.intervals import IntervalSet
from policyc.ir.matching import selects
from policyc.ir.peers import Network
from policyc.ir.policy import Direction, NamedPort, PolicySet, PortRange
from policyc.ir.selectors import EndpointSelector
from policyc.ir.services import Protocol
from policyc.ir.universe import FAMILIES, Endpoint
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.rows import services_of_ports
from policyc.verifier.cluster.space import Space, View
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
)
from policyc.verifier.smt.terms import (
    Term,
    asks_for,
    in_range,
    is_kind,
    is_service,
    service_key,
)

MOST_PAIRS = 400_000
"""The number of pairs of selector and class that are checked; of more, evenly spread ones."""


@dataclass(frozen=True, slots=True)
class PartitionProof:
    """The checks that were made. `pairs` of `all_pairs` are selectors and classes.

    `undecided`: the reason.
    """

    queries: int
    pairs: int
    all_pairs: int
    undecided: str = ""

    def method(self, rest: str) -> str:
        """The method in words, before `rest`: no query is named if none was made."""
        checked = "partition checked by queries, " if self.queries else ""
        whole = "every" if self.pairs == self.all_pairs else f"{self.pairs} of {self.all_pairs}"
        return f"{checked}{rest} ({whole} membership checked by the reference semantics)"


def prove_partition(
    space: Space,
    sets: Sequence[PolicySet],
    choice: Choice = Choice.Z3,
    timeout_ms: int | None = None,
) -> PartitionProof:
    """Check runs, service sets and memberships; a fault is a bug in policyc, so an InternalError."""
    queries = 0
    for what, goal in partition_goals(space, sets):
        decision = decide(goal, choice, timeout_ms)
        queries += 1
        if decision.answer is Answer.UNKNOWN:
            return PartitionProof(queries, 0, 0, f"{what}: {decision.reason}")
        if decision.answer is Answer.SAT:
            raise InternalError(f"{what} are not what the policies say")
    views = dict.fromkeys((space.before, space.after))
    asked = total = 0
    for view in views:
        mine, every = _check_memberships(view)
        asked, total = asked + mine, total + every
    return PartitionProof(queries, asked, total)


def partition_goals(space: Space, sets: Sequence[PolicySet]) -> Iterator[tuple[str, list[Term]]]:
    """(what, assertions) of every goal that must be unsatisfiable."""
    yield from _run_goals(space)
    yield from _service_goals(sets)


def _run_goals(space: Space) -> Iterator[tuple[str, list[Term]]]:
    """The addresses of a CIDR begin at its first and end before the one after its last.

    One goal for every prefix length in use covers all networks of that length. That these borders are
    starts of runs needs no solver.
    """
    for family in FAMILIES:
        networks = {n for b in space.reads.blocks for n in (b.network, *b.excepts)}
        mine = [network for network in networks if network.version == family]
        starts = {*space.runs[family], 1 << (32 if family == 4 else 128)}
        for network in mine:
            if not {_first(network), _first(network) + network.num_addresses} <= starts:
                raise InternalError(f"{network} begins or ends inside an address run")
        for length in sorted({network.prefixlen for network in mine}):
            yield f"IPv{family} /{length} networks", _borders(family, length)


def _first(network: Network) -> int:
    return int(network.network_address)


def _borders(family: int, length: int) -> list[Term]:
    """An address enters or leaves some network of a length elsewhere than at its two borders."""
    width = 32 if family == 4 else 128
    free = width - length
    first, address = z3.BitVecs("first address", width)
    if not free:
        is_in = [each == first for each in (address, address - 1)]
    elif not length:
        is_in = [z3.BoolVal(True), z3.BoolVal(True)]
    else:
        prefix = z3.Extract(width - 1, free, first)
        is_in = [z3.Extract(width - 1, free, each) == prefix for each in (address, address - 1)]
    aligned = first & ((1 << free) - 1) == 0
    end = first + z3.BitVecVal(1 << free, width) if length else z3.BitVecVal(0, width)
    return [aligned, address != 0, is_in[0] != is_in[1], address != first, address != end]


def _service_goals(sets: Sequence[PolicySet]) -> Iterator[tuple[str, list[Term]]]:
    """No key is in a port entry's interval without matching the entry, or the other way round."""
    entries = dict.fromkeys(
        entry
        for policy in policies_of(sets)
        for direction in Direction
        for rule in policy.rules(direction)
        for entry in (*rule.ports, *rule.except_ports)
        if not isinstance(entry, NamedPort)
    )
    key = service_key()
    protocols = {entry.protocol for entry in entries if isinstance(entry, PortRange)}
    for protocol in sorted(protocols, key=lambda p: p.value):
        yield f"{protocol.name} port ranges", _range_goal(key, protocol)
    differs = []
    for entry in entries:
        keys = services_of_ports((entry,), lambda _: ())
        if isinstance(entry, PortRange):
            base = entry.protocol.kind << 16
            if keys != IntervalSet.of([(base | entry.lo, base | entry.hi)]):
                raise InternalError(f"the service keys of {entry} are not its interval")
            continue
        asked = asks_for(key, entry, lambda _: z3.BoolVal(False))
        differs.append(asked != z3.Or(*(in_range(key, lo, hi) for lo, hi in keys)))
    if differs:
        yield "service sets", [is_service(key), z3.Or(*differs)]


def _range_goal(key: Term, protocol: Protocol) -> list[Term]:
    """A key is in some port range and not in its interval of keys, or the other way round."""
    lo, hi = z3.BitVecs("lo hi", 16)
    port = z3.Extract(15, 0, key)
    asked = z3.And(is_kind(key, protocol), z3.UGE(port, lo), z3.ULE(port, hi))
    base = z3.BitVecVal(protocol.kind, key.size() - 16)
    first, last = z3.Concat(base, lo), z3.Concat(base, hi)
    inside = z3.And(z3.UGE(key, first), z3.ULE(key, last))
    return [is_service(key), asked != inside]


def _check_memberships(view: View) -> tuple[int, int]:
    """(checked, all) pairs of a selector and a class of pods that it could select."""
    by_namespace: dict[str, list[int]] = {}
    pods = [(at, end) for at, end in enumerate(view.ends) if isinstance(end, Endpoint)]
    for at, pod in pods:
        by_namespace.setdefault(pod.namespace, []).append(at)
    every = [at for at, _ in pods]
    found = view.pods.answers()
    total = sum(len(_candidates(s, by_namespace, every)) for s, _ in found)
    step = max(1, -(-total // MOST_PAIRS))
    asked = 0
    for number, (selector, selected) in enumerate(found):
        among = _candidates(selector, by_namespace, every)
        for at in islice(among, number % step, None, step):
            end = view.ends[at]
            assert isinstance(end, Endpoint)
            asked += 1
            if selects(selector, end) != bool(selected >> at & 1):
                raise InternalError(f"a selector selects other pods than {end.qualified_name}")
    return asked, total


def _candidates(
    selector: EndpointSelector, by_namespace: dict[str, list[int]], every: list[int]
) -> list[int]:
    if selector.namespace is None:
        return every
    return by_namespace.get(selector.namespace, [])
