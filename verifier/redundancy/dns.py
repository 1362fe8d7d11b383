# SPDX-License-Identifier: Apache-2.0
"""Pods that may open connections but cannot query any DNS server.

A pod is cut off if it may reach some peer, and either UDP 53 is denied to every peer, or a rule denies
it to every pod of the cluster's DNS. A pod that may reach no peer at all is locked down on purpose.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from policyc.ir.bits import first
from policyc.ir.errors import InternalError
from policyc.ir.passes.cancel import restricted
from policyc.ir.policy import NEVER, Action, Direction, Policy, PolicySet
from policyc.ir.selectors import EndpointSelector, LabelSelector, Operator, Requirement
from policyc.ir.semantics import DecidedByRule, DeniedByDefault, EndVerdict, Verdict, verdict
from policyc.ir.services import Protocol, Service
from policyc.ir.universe import End, Endpoint, Flow
from policyc.verifier.cluster.outcomes import Decider, Segment, segments_of, with_action
from policyc.verifier.cluster.redundancy import Redundancy
from policyc.verifier.cluster.rows import Row

DNS = Service(Protocol.UDP.value, 53)
NAMESPACE, LABEL, VALUE = "kube-system", "k8s-app", "kube-dns"
RESOLVERS = EndpointSelector(
    NAMESPACE, labels=LabelSelector((Requirement(LABEL, Operator.IN, (VALUE,)),))
)
"""The pods of the cluster's DNS, by the labels of every usual installation."""
NODE_LOCAL = IPv4Address("169.254.20.10")
"""The default listening address of NodeLocal DNSCache."""


@dataclass(frozen=True, slots=True)
class CutOff:
    """A pod without DNS, a flow that shows it, and the policies or the rule that deny the flow."""

    subject: Endpoint
    flow: Flow
    verdict: Verdict
    policies: tuple[Policy, ...]


def cut_off(tried: Redundancy) -> Iterator[CutOff]:
    """One pod of every sort that is cut off; the reference semantics decided the flows."""
    resolvers = tried.space.after.pod_columns.selected(RESOLVERS)
    near = _Near(tried.policies)
    decider = Decider(tried.space.all)
    for row, real in tried.rows[Direction.EGRESS]:
        if not _may_be_cut(row):
            continue
        segments = segments_of((row,))
        asked = [segment for segment in segments if segment.lo <= DNS.key <= segment.hi]
        allowed = _allowed(decider, row, asked) & real
        is_nowhere = not allowed
        if not is_nowhere and (allowed & resolvers or not resolvers & real):
            continue
        if is_nowhere and not _allowed(decider, row, segments) & real:
            continue
        found = _shown(tried, near, row, real, resolvers & real)
        if found is not None and (is_nowhere or _by_rule(found.verdict.egress)):
            yield found


def _may_be_cut(row: Row) -> bool:
    """Whether some rule or default in it denies."""
    return any(
        tier.unmatched is not None or any(m.action.is_deny for m in tier.matchings)
        for tier in row.tiers
    )


def _allowed(decider: Decider, row: Row, segments: list[Segment]) -> int:
    """The peers that are allowed in one of some segments."""
    found = 0
    for outcome in decider.outcomes(row, segments):
        found |= with_action(outcome, Action.ALLOW)
    return found


def _by_rule(end: EndVerdict) -> bool:
    return isinstance(end.decider, DecidedByRule)


@dataclass
class _Near:
    """The policies that can select an end of some namespaces."""

    policies: PolicySet
    _known: dict[frozenset[str | None], PolicySet] = field(default_factory=dict)

    def of(self, *ends: End) -> PolicySet:
        """The policies that can select one of these ends, in order."""
        spaces = frozenset(end.namespace for end in ends if isinstance(end, Endpoint))
        wanted: frozenset[str | None] = spaces | {None}
        if wanted not in self._known:
            self._known[wanted] = restricted(
                self.policies, lambda p: p.subject.namespace in wanted or p.hosts != NEVER
            )
        return self._known[wanted]


def _shown(tried: Redundancy, near: _Near, row: Row, real: int, resolvers: int) -> CutOff | None:
    """The first pod of the row that is not a resolver itself, and its flow to one."""
    space = tried.space
    for at in tried.classes_of[id(row)]:
        subject = space.classes[at].after
        if not isinstance(subject, Endpoint) or _is_resolver(subject):
            continue
        for family in sorted(space.classes[at].families):
            columns = (resolvers or real & space.outside) & space.of_family[family]
            for column in _ascending(columns):
                found = _asked(near, subject, _end(tried, column, family), family)
                if found is not None:
                    return found
    return None


def _ascending(bits: int) -> Iterator[int]:
    """The numbers in a set, one at a time: of thousands the first is usually enough."""
    while bits:
        found = first(bits)
        yield found
        bits ^= 1 << found


def _end(tried: Redundancy, column: int, family: int) -> End | None:
    owner, example = tried.space.columns[column].owner, tried.space.columns[column].example
    if owner >= 0:
        return tried.space.classes[owner].after
    is_usual = family == 4 and not tried.impossible  # else it might be where only pods are
    return NODE_LOCAL if is_usual else example


def _is_resolver(pod: Endpoint) -> bool:
    return pod.namespace == NAMESPACE and pod.labels.get(LABEL) == VALUE


def _asked(near: _Near, subject: Endpoint, end: End | None, family: int) -> CutOff | None:
    """The flow with the reference semantics' decision at the source's end."""
    if end is None or end == subject:
        return None
    flow = Flow(subject, end, DNS, family, 40000)
    said = verdict(near.of(subject, end), flow)
    if not said.egress.action.is_deny:
        raise InternalError(f"the reference semantics do not confirm that DNS is cut: {flow}")
    match said.egress.decider:
        case DeniedByDefault(policies=policies):
            return CutOff(subject, flow, said, policies)
        case DecidedByRule(policy=policy):
            return CutOff(subject, flow, said, (policy,))
        case _:
            return None
