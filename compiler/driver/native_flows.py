# SPDX-License-Identifier: Apache-2.0
"""Many flows evaluated by compiled code, where it can say what the semantics would.

Takes flows as columns, gives for each the numbers of the verdicts at its source and destination, or of
none: flows with an end of which something is not known, or that the tables have no place for, are left
to the reference semantics. Rules of which the tables say too little leave every flow to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policyc.compiler.frontend.flow_columns import FlowColumns
from policyc.ir.atoms import partition
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.errors import HostError, InternalError
from policyc.ir.policy import NEVER, Direction, Policy, PolicySet, Rule
from policyc.ir.selectors import Condition
from policyc.ir.semantics import (
    FROM_ITS_NODE,
    NEIGHBOURS,
    NOT_ISOLATED,
    OUTSIDE,
    TO_ITSELF,
    DecidedByRule,
    DeniedByDefault,
    EndVerdict,
)
from policyc.ir.tables import RESERVED_RULES
from policyc.ir.universe import FAMILIES, Endpoint, Node, Universe
from policyc.ir.vocabulary import Vocabulary, vocabulary_of
from policyc.verifier.unknown_nodes import is_node, is_open, reads_nodes

if TYPE_CHECKING:  # what it needs may not be installed
    from policyc.backends.llvm.native import NativeEvaluator

BY_SEMANTICS = -1
"""Instead of the number of a verdict: a flow that is left to the semantics."""
_LEAST_FLOWS = 1000
_LEAST_WORK = 400_000
"""Flows times policies (and a little) from which compiling pays: some 0.4 s of the semantics."""


@dataclass(frozen=True)
class NativeAnswers:
    """The verdicts on flow i are `verdicts[egress[i]]` and `verdicts[ingress[i]]`, or BY_SEMANTICS."""

    verdicts: list[EndVerdict]
    egress: list[int]
    ingress: list[int]


def is_worth_compiling(policies: PolicySet, n_flows: int) -> bool:
    """Whether so many flows are evaluated sooner by compiled code, compiling included."""
    n_policies = sum(len(tier.policies) for tier in policies.tiers)
    return n_flows >= _LEAST_FLOWS and n_flows * (n_policies + 10) >= _LEAST_WORK


def require_native() -> None:
    """HostError where what compiled code needs is not installed."""
    missing = missing_for_native()
    if missing:
        raise HostError(
            f"native evaluation needs {missing}, which is not installed",
            "pip install 'policyc[native]', or leave --engine out",
        )


def missing_for_native() -> str:
    """What is not installed of llvmlite and numpy; empty where nothing is missing."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return "llvmlite"
    try:
        import numpy  # noqa: F401
    except ImportError:
        return "numpy"
    return ""


def why_not_native(policies: PolicySet, *, with_effects: bool = True) -> str:
    """What the rules ask for that tables do not say; empty where there is nothing.

    Without effects, what rules only note beside an action is not missed.
    """
    for tier in policies.tiers:
        titles = [policy.title for policy in tier.policies]
        if len(set(titles)) < len(titles):
            return f"two policies of the tier {tier.name} have one name"
        for policy in tier.policies:
            if policy.hosts != NEVER:
                return f"{policy.title} guards host interfaces"
            for rule in (*policy.ingress, *policy.egress):
                if what := _beyond_tables(rule, with_effects):
                    return f"{policy.title} {rule.origin.path} has {what}"
    return ""


def _beyond_tables(rule: Rule, with_effects: bool) -> str:
    if rule.action.goes_on:
        return f"`{rule.action.value}`"
    if rule.source_ports is not None:
        return "source ports"
    if not with_effects:
        return ""
    if rule.limit is not None:
        return "`limit`"
    return "`log`" if rule.log else ""


def evaluate_natively(policies: PolicySet, flows: FlowColumns) -> NativeAnswers:
    """The verdicts of all flows. Needs `why_not_native` to be empty, and llvmlite and numpy."""
    import numpy as np

    from policyc.backends.llvm.batch import Flows, words
    from policyc.backends.llvm.native import NativeEvaluator

    vocabulary = vocabulary_of(policies)
    decision = decide(policies, partition(vocabulary, _universe_of(flows)))
    numbers = _Numbers(decision, flows, _reads_nodes(policies, vocabulary))
    native = NativeEvaluator(decision, numbers.ends)
    src, dst, asked = (
        np.frombuffer(column, dtype=np.uint32) for column in (flows.src, flows.dst, flows.asked)
    )
    families = np.array([family == 6 for family, _, _ in flows.questions], dtype=np.intp)[asked]
    of_end = np.array(numbers.of_end, dtype=np.int64)
    is_open_end, is_node_end = (np.array(each) for each in (numbers.is_open, numbers.is_node))
    sources, destinations = of_end[src, families], of_end[dst, families]
    by_node = is_open_end[src] & is_node_end[dst] | is_node_end[src] & is_open_end[dst]
    known = (sources >= 0) & (destinations >= 0) & ~by_node
    keys = words([service.key for _, service, _ in flows.questions])
    found = native.verdicts(
        Flows(words(sources[known]), words(destinations[known]), keys[asked[known]])
    )
    reading = _Words(policies, native)
    verdicts: list[EndVerdict] = []
    columns = []
    for direction, column in ((Direction.EGRESS, found.egress), (Direction.INGRESS, found.ingress)):
        different, which = np.unique(column, return_inverse=True)
        numbers_of = np.full(len(flows), BY_SEMANTICS, dtype=np.int64)
        numbers_of[known] = which + len(verdicts)
        verdicts += [reading.verdict(direction, word) for word in different.tolist()]
        columns.append(numbers_of.tolist())
    return NativeAnswers(verdicts, *columns)


def _universe_of(flows: FlowColumns) -> Universe:
    """The ends that the flows have; what else is in the cluster is no column of theirs."""
    endpoints = dict.fromkeys(end for end in flows.ends if isinstance(end, Endpoint))
    nodes = dict.fromkeys(end for end in flows.ends if isinstance(end, Node))
    return Universe(tuple(end for end in endpoints if end.addresses_known), tuple(nodes))


def _reads_nodes(policies: PolicySet, vocabulary: Vocabulary) -> bool:
    """Whether any rule reads the node of a pod, or a node itself."""
    return vocabulary.reads_nodes or any(map(reads_nodes, _conditions(policies, vocabulary)))


def _conditions(policies: PolicySet, vocabulary: Vocabulary) -> Iterator[Condition]:
    for selector in vocabulary.selectors:
        yield selector.condition
    for tier in policies.tiers:
        for policy in tier.policies:
            yield policy.subject.condition


class _Numbers:
    """Ends of the flows as ends of compiled code, in each family; -1: left to the semantics.

    An end is open where its node, or what the node is like, is not known. It is left out where rules
    read nodes; else it matters only against a node, which may be its own (A22).
    """

    def __init__(self, decision: DecisionIR, flows: FlowColumns, has_node_rules: bool) -> None:
        from policyc.backends.llvm.ends import Ends

        self.ends = Ends(decision)
        self.is_node = [is_node(end) for end in flows.ends]
        self.is_open = [is_open(end) for end in flows.ends]
        self.of_end: list[tuple[int, int]] = []
        for end, of_node, is_unknown in zip(flows.ends, self.is_node, self.is_open, strict=True):
            if is_unknown and (of_node or has_node_rules):
                self.of_end.append((-1, -1))
                continue
            found = [
                self.ends.add(end, family) if _has(end, family) else None for family in FAMILIES
            ]
            four, six = (-1 if number is None else number for number in found)
            self.of_end.append((four, six))


def _has(end: object, family: int) -> bool:
    if isinstance(end, Endpoint | Node):
        return end.address(family) is not None
    return bool(getattr(end, "version", None) == family)


class _Words:
    """Verdict words as the verdicts of the semantics."""

    def __init__(self, policies: PolicySet, native: "NativeEvaluator") -> None:
        from policyc.backends.llvm.batch import Special

        self.native = native
        self.special = {
            Special.OUTSIDE: OUTSIDE,
            Special.TO_ITSELF: TO_ITSELF,
            Special.NEIGHBOURS: NEIGHBOURS,
            Special.FROM_ITS_NODE: FROM_ITS_NODE,
        }
        self.policies: dict[tuple[str, str], Policy] = {
            (tier.name, policy.title): policy for tier in policies.tiers for policy in tier.policies
        }

    def verdict(self, direction: Direction, word: int) -> EndVerdict:
        """The verdict that a word stands for at the end of this direction."""
        special = self.native.special(word)
        if special is not None:
            return self.special[special]
        entry = self.native.entry(word)
        if entry == RESERVED_RULES[0]:
            return NOT_ISOLATED
        return EndVerdict(entry.action, self._decider(entry, direction))

    def _decider(self, entry: RuleEntry, direction: Direction) -> DecidedByRule | DeniedByDefault:
        policies = tuple(self.policies[entry.tier, title] for title in entry.policies)
        match entry.kind:
            case "rule":
                return DecidedByRule(entry.tier, policies[0], direction, entry.index)
            case "default-deny":
                return DeniedByDefault(entry.tier, direction, policies)
            case _:
                raise InternalError(f"no flow of eval is decided by {entry.kind}")
