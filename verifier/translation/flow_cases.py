# SPDX-License-Identifier: Apache-2.0
"""All flows, and cases of them: by family and by kind of service, both functions of the flow itself.

In a case the service key is simple, and half of the searches are irrelevant. Cases are used where all
flows at once are too much for a solver.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policyc.ir.universe import FAMILIES
from policyc.verifier.bytecode.nodes import Node
from policyc.verifier.bytecode.values import Bits, Truth
from policyc.verifier.translation.policy_runs import PolicyRuns

BITS = 8
"""The number of cases of a family and of a protocol number."""

_Known = tuple[tuple[Node, int | bool], ...]


@dataclass(frozen=True)
class Case:
    """A set of flows: substitutions for terms, facts that hold, and cases that cover the set."""

    title: str
    known: _Known = ()
    facts: tuple[Truth, ...] = ()
    parts: tuple["Case", ...] = ()


def all_flows(runs: PolicyRuns, numbers: Sequence[int]) -> Case:
    """All flows; in the cases each distinguished protocol number is a case of its own."""
    families = [_of_family(runs, version, numbers) for version in FAMILIES]
    neither = _none_of(runs, runs.field("tuple.family"), FAMILIES)
    return Case("all flows", parts=(*families, Case("neither IPv4 nor IPv6", *neither)))


def _of_family(runs: PolicyRuns, version: int, numbers: Sequence[int]) -> Case:
    number = runs.field("tuple.proto")
    known = _is(runs.field("tuple.family"), version)
    title = f"IPv{version}"
    parts = [Case(f"{title}, protocol {each}", (*known, *_is(number, each))) for each in numbers]
    others, facts = _none_of(runs, number, numbers)
    parts.append(Case(f"{title}, any other protocol", (*known, *others), facts))
    return Case(title, known, parts=tuple(parts) if numbers else ())


def _is(value: Bits, known: int) -> _Known:
    assert isinstance(value, Node), "a member of a flow is not known"
    return ((value, known),)


def _none_of(
    runs: PolicyRuns, value: Bits, numbers: Sequence[int]
) -> tuple[_Known, tuple[Truth, ...]]:
    """A member is none of some numbers: the resulting substitutions, and the facts."""
    found = [runs.domain.equal(value, each, BITS) for each in numbers]
    known = tuple((each, False) for each in found if isinstance(each, Node))
    return known, tuple(runs.domain.no(each) for each in found)
