# SPDX-License-Identifier: Apache-2.0
"""The effect of a change on the flows that nodes generate for pods of their own (semantics A22).

These flows pass, unless a rule denies exactly them. Few rules do. So the pods that such a rule selects
are evaluated one by one, at every service where one of their rules begins or ends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from policyc.ir.bits import union
from policyc.ir.intervals import IntervalSet
from policyc.ir.policy import Action, Direction, NamedPort, Policy, PolicySet
from policyc.ir.results.common import Witness
from policyc.ir.results.diff import Difference, DifferenceKind
from policyc.ir.semantics import Verdict, is_subject, verdict
from policyc.ir.services import ALL_SERVICES, Kind, Service, describe_services, kind_span
from policyc.ir.universe import Endpoint, Flow, Node
from policyc.verifier.cluster.reads import policies_of
from policyc.verifier.cluster.rows import services_of
from policyc.verifier.cluster.space import Space
from policyc.verifier.cluster.words import Words
from policyc.verifier.symbolic.differences import (
    deciders,
    kind_between,
    plain_services,
    steps,
)

OWN_NODE = "the pod's own node"
_OF_OTHER_FAMILY = {4: kind_span(Kind.ICMPV6), 6: kind_span(Kind.ICMP)}


def binds_own_node(policies: PolicySet) -> bool:
    """Whether some rule also denies flows that a pod's own node generates."""
    return any(map(_binds, policies_of((policies,))))


def _binds(policy: Policy) -> bool:
    return any(rule.action is Action.DENY_OWN_NODE for rule in policy.ingress)


@dataclass
class OwnNodeChange:
    """Pods for which the flows of their own node change alike; `flow` is one, with both verdicts."""

    kind: DifferenceKind
    families: dict[int, IntervalSet]
    flow: Flow
    verdicts: tuple[Verdict, Verdict]
    classes: list[int] = field(default_factory=list)
    n_pods: int = 0

    def difference(self, space: Space, words: Words) -> Difference:
        """The change in words, with its witness."""
        columns = union(1 << at for each in self.classes for at in space.columns_of[each])
        keys = IntervalSet.of(span for found in self.families.values() for span in found)
        services = describe_services(plain_services(keys, list(self.families)))
        labelled = tuple(zip(("before", "after"), self.verdicts, strict=True))
        ingress = [Direction.INGRESS]
        return Difference(
            self.kind,
            OWN_NODE,
            words.side(columns),
            (services,),
            Direction.INGRESS,
            Witness(self.flow, labelled, tuple(s for name, v in labelled for s in steps(name, v))),
            deciders(self.verdicts[0], ingress),
            deciders(self.verdicts[1], ingress),
            self.n_pods,
        )


@dataclass
class OwnNodeComparison:
    """Two policy sets, over the pods of a space before and after.

    `ignore_effects`: only actions count.
    """

    space: Space
    before: PolicySet
    after: PolicySet
    ignore_effects: bool = False

    def changes(self) -> list[OwnNodeChange]:
        """Every change; pods that change alike are together. A pod on an unknown node has none."""
        if not (binds_own_node(self.before) or binds_own_node(self.after)):
            return []
        self._nodes = [_nodes(site.before for site in self.space.sites),
                       _nodes(site.after for site in self.space.sites)]  # fmt: skip
        found: dict[object, OwnNodeChange] = {}
        for at, each in enumerate(self.space.classes):
            seen: dict[tuple[str, str], list[OwnNodeChange]] = {}
            for member in each.members:
                site = self.space.sites[member]
                if not (isinstance(site.before, Endpoint) and isinstance(site.after, Endpoint)):
                    continue
                names = site.before.node, site.after.node
                if names not in seen:
                    seen[names] = list(self._of_pod(site.before, site.after))
                for change in seen[names]:
                    key = change.kind, tuple(change.families.items()), _decided(change)
                    whole = found.setdefault(key, change)
                    whole.n_pods += 1
                    if at not in whole.classes:
                        whole.classes.append(at)
        return list(found.values())

    def _of_pod(self, before: Endpoint, after: Endpoint) -> Iterator[OwnNodeChange]:
        sides = ((self.before, before), (self.after, after))
        if not (before.node and after.node) or not any(
            _binds(policy) and is_subject(policy, pod)
            for policies, pod in sides
            for policy in policies_of((policies,))
        ):
            return
        found: dict[DifferenceKind, OwnNodeChange] = {}
        for family in sorted(_OF_OTHER_FAMILY):
            if before.address(family) is None or after.address(family) is None:
                continue
            for lo, hi in _segments(sides, family):
                was, now = (
                    Flow(self._node(side, pod), pod, Service.from_key(lo), family)
                    for side, (_, pod) in enumerate(sides)
                )
                verdicts = verdict(self.before, was), verdict(self.after, now)
                kind = kind_between(*verdicts, self.ignore_effects)
                if kind is None:
                    continue
                change = found.setdefault(kind, OwnNodeChange(kind, {}, now, verdicts))
                keys = change.families.get(family, IntervalSet())
                change.families[family] = keys | IntervalSet.of([(lo, hi)])
        yield from found.values()

    def _node(self, side: int, pod: Endpoint) -> Node:
        known = self._nodes[side].get(pod.node)
        return known or pod.its_node or Node(pod.node)


def _nodes(ends: Iterable[Endpoint | Node]) -> dict[str, Node]:
    """The nodes as sources of flows, each with all of its addresses."""
    found: dict[str, Node] = {}
    for end in ends:
        if isinstance(end, Node):
            known = found.get(end.name)
            addresses = (*(known.addresses if known else ()), *end.addresses)
            found[end.name] = replace(end, addresses=addresses, speaks=True)
    return found


def _decided(change: OwnNodeChange) -> object:
    return tuple(deciders(each, [Direction.INGRESS]) for each in change.verdicts)


def _segments(
    sides: Iterable[tuple[PolicySet, Endpoint]], family: int
) -> Iterator[tuple[int, int]]:
    """Service keys lo to hi inside which every rule of the pod's matches all or nothing."""
    cuts = {kind << 16 for kind in Kind}
    for policies, pod in sides:

        def numbers(port: NamedPort, pod: Endpoint = pod) -> Iterable[int]:
            return pod.named_ports(port.name, port.protocol)

        for policy in policies_of((policies,)):
            if is_subject(policy, pod):
                spans = (span for rule in policy.ingress for span in services_of(rule, numbers))
                cuts |= {cut for lo, hi in spans for cut in (lo, hi + 1)}
    possible = ALL_SERVICES - _OF_OTHER_FAMILY[family]
    starts = sorted(cut for cut in cuts if cut in possible)
    for at, lo in enumerate(starts):
        upper = starts[at + 1] - 1 if at + 1 < len(starts) else ALL_SERVICES.spans[-1][1]
        yield from possible & IntervalSet.of([(lo, upper)])
