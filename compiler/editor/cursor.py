# SPDX-License-Identifier: Apache-2.0
"""What is under the cursor: a rule, one of its peers, or the selector of a policy."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import yaml

from policyc.compiler.frontend.yaml.marked import (
    MarkedMapping,
    MarkedNode,
    MarkedScalar,
    MarkedSequence,
    marked_documents,
)
from policyc.ir.policy import Direction, Policy, PolicySet, Rule
from policyc.verifier.cluster.reads import policies_of

Step = str | int
_SUBJECTS = ("podSelector", "subject", "endpointSelector", "selector")
_PEERS = {Direction.INGRESS: "from", Direction.EGRESS: "to"}


@dataclass(frozen=True, slots=True)
class Pointed:
    """A policy and a part of it: `rules` of one item, and the index of the peer in it, None for all.

    Without rules it is the subject of the policy. `start` and `end` are its characters.
    """

    policy: Policy
    start: int
    end: int
    direction: Direction | None = None
    rules: tuple[Rule, ...] = ()
    peer: int | None = None


def pointed_at(text: str, offset: int, name: str, policies: PolicySet) -> Pointed | None:
    """The part of a policy at a character of a file; None if there is none."""
    try:
        roots = [each.root for each in marked_documents(text)]
    except yaml.YAMLError:
        return None
    for root in roots:
        path = list(_path(root, offset))
        objects = [at for at, (_, node) in enumerate(path) if _place(node) is not None]
        if objects:
            at = objects[-1]
            policy = _policy(_place(path[at][1]), name, policies)
            return None if policy is None else _part(policy, path[at + 1 :])
    return None


def _path(node: MarkedNode, offset: int) -> Iterator[tuple[Step, MarkedNode]]:
    """The nodes around a character, from the root inwards, with the step that leads to each."""
    step: Step = ""
    found: MarkedNode | None = node
    while found is not None and found.marks.start <= offset <= found.marks.end:
        yield step, found
        node, found = found, None
        if isinstance(node, MarkedSequence):
            inside = list(takewhile(lambda i: i[1].marks.start <= offset, enumerate(node.items)))
            if inside:
                step, found = inside[-1]
        elif isinstance(node, MarkedMapping):
            for key, value in node.entries:
                if isinstance(key, MarkedScalar) and key.marks.start <= offset:
                    step, found = key.text, value
            if found is not None and offset < found.marks.start:
                yield step, found
                return


def _place(node: MarkedNode) -> tuple[int, int] | None:
    """Line and column of `metadata.name` of an object."""
    metadata = node.get("metadata") if isinstance(node, MarkedMapping) else None
    if not isinstance(metadata, MarkedMapping):
        return None
    named = metadata.get("name")
    return None if named is None else (named.marks.line, named.marks.column)


def _policy(place: tuple[int, int] | None, name: str, policies: PolicySet) -> Policy | None:
    for each in policies_of((policies,)):
        span = each.origin.span
        if span.file == name and (span.line, span.column) == place:
            return each
    return None


def _part(policy: Policy, path: list[tuple[Step, MarkedNode]]) -> Pointed | None:
    """The part of a policy that the steps below its object lead to."""
    steps = [step for step, _ in path]
    if len(steps) < 2 or steps[0] != "spec":
        return None
    if steps[1] in _SUBJECTS:
        return Pointed(policy, *_extent(path[1][1]))
    for direction in Direction:
        if steps[1] == direction.value and len(steps) > 2:
            where = f"spec.{steps[1]}[{steps[2]}]"
            rules = tuple(r for r in policy.rules(direction) if r.origin.path == where)
            at = _peer(steps, direction, rules, path)
            node = path[2 if at is None else 4][1]
            return Pointed(policy, *_extent(node), direction, rules, at) if rules else None
    return None


def _peer(
    steps: list[Step],
    direction: Direction,
    rules: tuple[Rule, ...],
    path: list[tuple[Step, MarkedNode]],
) -> int | None:
    """The index of the peer, where each item of the list is one peer."""
    if len(steps) < 5 or steps[3] != _PEERS[direction] or len(rules) != 1:
        return None
    items = path[3][1]
    is_same = isinstance(items, MarkedSequence) and len(items.items) == len(rules[0].peers)
    return int(steps[4]) if is_same else None


def _extent(node: MarkedNode) -> tuple[int, int]:
    return node.marks.start, node.marks.end
