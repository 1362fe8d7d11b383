# SPDX-License-Identifier: Apache-2.0
"""The possible nodes of a flow's ends, as far as the conditions read them.

The input does not say on which node a template's pod will run, nor the labels of a node without a Node
object. Such a node may be any known node, or another one with any of the names and labels that the
conditions distinguish.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from math import prod

from policyc.ir.matching import condition_holds, requirement_holds
from policyc.ir.peers import EndpointPeer, NodePeer, Peer, leaves
from policyc.ir.selectors import (
    AllOf,
    Attribute,
    AttributeTest,
    Condition,
    Not,
    OneOf,
    Operator,
    Requirement,
)
from policyc.ir.semantics import as_seen
from policyc.ir.universe import End, Endpoint, Flow, HostInterface, Node

SOME_NODES = ("<some node>", "<another node>")
"""Names that no Node has. Two, because two pods may be on one node, or not."""
_OTHER_VALUE = "<another value>"
_MOST_LABEL_SETS = 64
_OF_NODES = (Attribute.NODE, Attribute.NODE_LABEL)
_TEXT_OPERATORS = (Operator.STARTS_WITH, Operator.ENDS_WITH, Operator.CONTAINS)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The possible nodes. `under_host_policy`: every node is under host policy, also an unknown one."""

    known: Sequence[Node] = ()
    under_host_policy: bool = False

    def new(self, name: str, labels: Mapping[str, str]) -> Node:
        """A node without a Node object."""
        host = HostInterface(name) if self.under_host_policy else None
        return Node(name, dict(labels), host=host)


@dataclass(frozen=True, slots=True)
class Read:
    """The attributes of both ends' nodes that rules read. `sharing`: whether both are one node."""

    src: tuple[Condition, ...] = ()
    dst: tuple[Condition, ...] = ()
    sharing: bool = False


def is_node(end: End) -> bool:
    """Whether policies treat the end as a node (A21)."""
    return isinstance(end, Node) or (isinstance(end, Endpoint) and end.host_network)


def is_open(end: End) -> bool:
    """Whether the end runs on a node that is not fully known."""
    return isinstance(end, Endpoint) and end.its_node is None


def conditions_on(end: End, peers: Iterable[Peer]) -> Iterator[Condition]:
    """The conditions in peers whose results may depend on the node of this end."""
    for leaf in (leaf for peer in peers for leaf in leaves(peer)):
        match leaf:
            case NodePeer(condition) if is_node(end):
                yield condition
            case EndpointPeer(selector) if not is_node(end) and reads_nodes(selector.condition):
                yield selector.condition


def reads_nodes(condition: Condition) -> bool:
    """Whether a condition reads the name or a label of a node."""
    return any(test.attribute in _OF_NODES for test in _tests(condition))


def _tests(condition: Condition) -> Iterator[AttributeTest]:
    match condition:
        case AttributeTest():
            yield condition
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from _tests(part)
        case Not(part):
            yield from _tests(part)


def placements(end: End, conditions: Iterable[Condition], nodes: Nodes) -> list[End]:
    """The end on one node of each sort that the conditions distinguish; itself if there is one sort."""
    return list(_by_sort(end, tuple(dict.fromkeys(conditions)), nodes))


def _by_sort(end: End, conditions: tuple[Condition, ...], nodes: Nodes) -> Iterator[End]:
    if not is_open(end) or not (conditions or is_node(end)):
        yield end
        return
    found: dict[object, End] = {}
    for node in _candidates(end, None, conditions, nodes):
        found.setdefault(sort_on(end, node, conditions), on_node(end, node))
    yield from found.values()


def placed(flow: Flow, read: Read, nodes: Nodes) -> tuple[list[Flow], list[Endpoint]]:
    """The flow with its ends on one pair of nodes of each sort, and the ends whose nodes differ."""
    ends = (flow.src, flow.dst)
    reads = (read.src, read.dst)
    sharing = read.sharing and any(is_node(end) for end in ends)
    options = [
        _options(end, other, reads, nodes, sharing or bool(own) or is_node(end))
        for end, other, own in ((flow.src, flow.dst, read.src), (flow.dst, flow.src, read.dst))
    ]
    found: dict[object, Flow] = {}
    for src, dst in product(*options):
        if src is not None and dst is not None and src.name == dst.name and src != dst:
            continue  # one node has one set of labels
        turned = replace(flow, src=on_node(flow.src, src), dst=on_node(flow.dst, dst))
        one_node = sharing and _node_name(turned.src) == _node_name(turned.dst)
        key = (sort_on(flow.src, src, read.src), sort_on(flow.dst, dst, read.dst), one_node)
        found.setdefault(key, turned)
    differ = [
        end
        for end, nodes_of_it in zip(ends, options, strict=True)
        if isinstance(end, Endpoint) and len(nodes_of_it) > 1
    ]
    return list(found.values()), differ if len(found) > 1 else []


def _options(
    end: End, other: End, reads: tuple[tuple[Condition, ...], ...], nodes: Nodes, matters: bool
) -> list[Node | None]:
    """Up to two nodes of each sort that the end may be on; None: as it is."""
    if not is_open(end) or not matters:
        return [None]
    conditions = tuple(dict.fromkeys(condition for read in reads for condition in read))
    sorts: dict[object, list[Node]] = {}
    for node in _candidates(end, other, conditions, nodes):
        mine, theirs = sort_on(end, node, conditions), sort_on(other, node, conditions)
        alike = sorts.setdefault((mine, theirs, node.name == _node_name(other)), [])
        if len(alike) < 2:
            alike.append(node)
    return [node for alike in sorts.values() for node in alike]


def _candidates(
    end: End, other: End | None, conditions: tuple[Condition, ...], nodes: Nodes
) -> Iterator[Node]:
    """Every node of interest: the known ones, the other end's, those that conditions name, any."""
    names, labels = _told_apart(conditions)
    known = {node.name: node for node in nodes.known}
    name = _node_name(end)
    if name:
        found = known.get(name)
        yield from [found] if found else (nodes.new(name, some) for some in labels)
        return
    theirs = _node_of(other)
    if theirs is not None:
        known.setdefault(theirs.name, replace(theirs, speaks=True))
    yield from known.values()
    for name in dict.fromkeys([*names, _node_name(other), *SOME_NODES]):
        if name and name not in known:
            yield from (nodes.new(name, some) for some in labels)


def _node_of(end: End | None) -> Node | None:
    if isinstance(end, Endpoint):
        return end.its_node
    return end if isinstance(end, Node) else None


def _node_name(end: End | None) -> str:
    if isinstance(end, Endpoint):
        return end.node
    return end.name if isinstance(end, Node) else ""


def on_node(end: End, node: Node | None) -> End:
    """A pod on that node; for None, or an end that is not a pod: unchanged."""
    if node is None or not isinstance(end, Endpoint):
        return end
    return replace(end, node=node.name, its_node=node)


def sort_on(end: End, node: Node | None, conditions: tuple[Condition, ...]) -> object:
    """The sort of an end on a node: policies cannot distinguish two nodes of one sort."""
    seen = as_seen(on_node(end, node))
    if not isinstance(seen, Endpoint | Node):
        return None
    truths = tuple(condition_holds(condition, seen) for condition in conditions)
    host = seen.host if isinstance(seen, Node) else None
    return truths, host and (host.name if host.denies_unmatched else "", host.has_failsafes)


@lru_cache(maxsize=64)
def _told_apart(
    conditions: tuple[Condition, ...],
) -> tuple[tuple[str, ...], tuple[Mapping[str, str], ...]]:
    """Names of nodes, and sets of labels, that conditions distinguish."""
    tests = dict.fromkeys(test for condition in conditions for test in _tests(condition))
    names = [test.requirement for test in tests if test.attribute is Attribute.NODE]
    return tuple(dict.fromkeys(_mentioned(names))), tuple(_label_sets(conditions, tests))


def _label_sets(
    conditions: tuple[Condition, ...], tests: Iterable[AttributeTest]
) -> list[dict[str, str]]:
    """Every combination; if there are too many, those of the labels that one condition reads."""
    values = _values_by_key(tests)
    if prod(len(found) for found in values.values()) <= _MOST_LABEL_SETS:
        return list(_combinations(values))
    sets: list[dict[str, str]] = [{}]
    for condition in conditions:
        some = _combinations(_values_by_key(_tests(condition)))
        sets += [found for found in islice(some, _MOST_LABEL_SETS) if found not in sets]
    return sets


def _combinations(values: Mapping[str, list[str | None]]) -> Iterator[dict[str, str]]:
    for chosen in product(*values.values()):
        pairs = zip(values, chosen, strict=True)
        yield {key: value for key, value in pairs if value is not None}


def _values_by_key(tests: Iterable[AttributeTest]) -> dict[str, list[str | None]]:
    """For each label that is read, one value of each sort; None: without the label."""
    by_key: dict[str, list[Requirement]] = {}
    for test in tests:
        if test.attribute is Attribute.NODE_LABEL:
            by_key.setdefault(test.requirement.key, []).append(test.requirement)
    return {key: _values(key, requirements) for key, requirements in by_key.items()}


def _values(key: str, requirements: list[Requirement]) -> list[str | None]:
    found: dict[object, str | None] = {}
    for value in (None, *_mentioned(requirements), _OTHER_VALUE):
        labels = {} if value is None else {key: value}
        found.setdefault(tuple(requirement_holds(r, labels) for r in requirements), value)
    return list(found.values())


def _mentioned(requirements: Iterable[Requirement]) -> Iterator[str]:
    """The values in requirements, and texts that begin with one and end with another."""
    texts: list[str] = []
    for requirement in requirements:
        yield from requirement.values
        if requirement.operator in _TEXT_OPERATORS:
            texts += requirement.values
    yield from (first + last for first in texts for last in texts)
