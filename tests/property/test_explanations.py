# SPDX-License-Identifier: Apache-2.0
"""An explanation is the verdict, and its reasons are true: without them the part would match."""

import random
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyc.ir.matching import peer_matches, selects, service_matches
from policyc.ir.peers import AddressPeer, AnyPeer, EndpointPeer, NodePeer
from policyc.ir.policy import (
    ALWAYS,
    NEVER,
    AnyService,
    Direction,
    EveryPort,
    IcmpType,
    NamedPort,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    ProtocolNumber,
    Rule,
)
from policyc.ir.results.explain import EndWalk, Explanation, RuleRole, RuleWalk, TierOutcome
from policyc.ir.results.reasons import (
    Excluded,
    InsideExcept,
    NotDeclared,
    OtherIcmp,
    OtherNamespace,
    OtherProtocol,
    OutsideBlock,
    OutsidePorts,
    Reason,
    RequirementFails,
)
from policyc.ir.selectors import Attribute, EndpointSelector, Operator, Requirement
from policyc.ir.semantics import DecidedByRule, as_seen, rule_matches, verdict
from policyc.ir.services import Kind, Service
from policyc.ir.universe import ContainerPort, Endpoint, Flow, HostInterface, Node
from policyc.verifier.explain.explanation import explain
from policyc.verifier.explain.mismatches import (
    peer_reasons,
    selector_reasons,
    service_reasons,
)
from tests.property.cases import Case, random_case
from tests.property.length import examples
from tests.property.tiered_cases import tiered_case

SEEDS = st.integers(min_value=0, max_value=2**32)


def random_flows(seed: int) -> Iterator[tuple[Case, Flow]]:
    rng = random.Random(seed)
    case = _with_hosts(tiered_case(rng) if rng.random() < 0.6 else random_case(rng), rng)
    for flow in case.flows(rng, 12):
        yield case, rng.choice((flow, _on_the_host(flow), _with_a_node(flow, rng)))


def _with_hosts(case: Case, rng: random.Random) -> Case:
    """Some of the policies guard hosts, too."""
    return replace(
        case,
        policies=PolicySet(
            tuple(
                replace(
                    tier,
                    policies=tuple(
                        replace(policy, hosts=rng.choice((NEVER, NEVER, ALWAYS)))
                        for policy in tier.policies
                    ),
                )
                for tier in case.policies.tiers
            )
        ),
    )


def _with_a_node(flow: Flow, rng: random.Random) -> Flow:
    """The same with a node at one end, with a host interface or without."""
    guarded, failsafe = rng.random() < 0.5, rng.random() < 0.5
    host = rng.choice((None, HostInterface("eth0", {"app": "x"}, guarded, failsafe)))
    held = ip_address("10.9.0.1" if flow.family == 4 else "fd00:9::1")
    node = Node(rng.choice(("n", "m")), {}, (held,), host, rng.random() < 0.8)
    service = rng.choice((flow.service, Service(6, 22), Service(17, 53), Service(58, 135 << 8)))
    flow = replace(
        flow, service=service if service.number != 58 or flow.family == 6 else flow.service
    )
    return replace(flow, src=node) if rng.random() < 0.5 else replace(flow, dst=node)


def _on_the_host(flow: Flow) -> Flow:
    """The same with a source in its node's network."""
    if not isinstance(flow.src, Endpoint):
        return flow
    return replace(flow, src=replace(flow.src, host_network=True, node=flow.src.node or "n"))


def rules_by_place(case: Case) -> dict[int, tuple[Policy, Direction, Rule]]:
    return {
        id(rule.origin.span): (policy, direction, rule)
        for tier in case.policies.tiers
        for policy in tier.policies
        for direction in Direction
        for rule in policy.rules(direction)
    }


def check_walk(case: Case, flow: Flow, walk: EndWalk) -> None:
    """The explanation of each tier, policy and rule equals the semantics."""
    own, other = (
        (flow.src, flow.dst) if walk.direction is Direction.EGRESS else (flow.dst, flow.src)
    )
    subject, peer = as_seen(own), as_seen(other)
    if walk.skipped:
        assert not walk.tiers
        return
    assert isinstance(subject, Endpoint | Node)
    found = rules_by_place(case)
    deciders = []
    for tier in walk.tiers:
        for policy in tier.policies:
            for rule in policy.rules:
                meant = found[id(rule.place.span)][2]
                matches = rule_matches(meant, walk.direction, subject, peer, flow)
                assert matches == (not rule.mismatches) == (rule.role is not RuleRole.NO_MATCH)
                if rule.role is RuleRole.DECIDES:
                    deciders.append(meant)
    decider = walk.verdict.decider
    wanted = [decider.rule] if isinstance(decider, DecidedByRule) else []
    assert deciders == wanted
    ends = [tier.outcome for tier in walk.tiers]
    if TierOutcome.NOT_ASKED in ends:
        first = ends.index(TierOutcome.NOT_ASKED)
        assert ends[first - 1] in (TierOutcome.DECIDED, TierOutcome.DEFAULT)
        assert set(ends[first:]) == {TierOutcome.NOT_ASKED}


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_an_explanation_ends_in_the_verdict(seed: int) -> None:
    for case, flow in random_flows(seed):
        made: Explanation = explain(case.policies, flow)
        assert made.verdict == verdict(case.policies, flow)
        assert (made.egress.verdict, made.ingress.verdict) == (
            made.verdict.egress,
            made.verdict.ingress,
        )
        check_walk(case, flow, made.egress)
        check_walk(case, flow, made.ingress)


def rules_of_the_deciding_tier(walk: EndWalk) -> list[RuleWalk]:
    return [
        rule
        for tier in walk.tiers
        for policy in tier.policies
        for rule in policy.rules
        if tier.outcome is TierOutcome.DECIDED
    ]


@settings(max_examples=examples(150, 2))
@given(SEEDS)
@example(124513)  # a plain deny behind one that also denies the node's own flows
def test_without_its_deciding_rule_a_verdict_has_another_decider(seed: int) -> None:
    """Without its deciding rules and those that agree, the tier decides otherwise, or not at all."""
    for case, flow in random_flows(seed):
        made = explain(case.policies, flow)
        for walk in (made.egress, made.ingress):
            roles = (RuleRole.DECIDES, RuleRole.AGREES)
            rules = rules_of_the_deciding_tier(walk)
            gone = {id(rule.place.span) for rule in rules if rule.role in roles}
            if not gone:
                continue
            rest = without(case, gone)
            end = explain(rest, flow)
            after = end.egress if walk.direction is Direction.EGRESS else end.ingress
            was, now = walk.verdict.decider, after.verdict.decider
            assert isinstance(was, DecidedByRule)
            same_tier = isinstance(now, DecidedByRule) and now.tier == was.tier
            if same_tier:
                assert after.verdict.action != walk.verdict.action


def without(case: Case, gone: set[int]):  # type: ignore[no-untyped-def]
    def kept(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return tuple(rule for rule in rules if id(rule.origin.span) not in gone)

    return replace(
        case.policies,
        tiers=tuple(
            replace(
                tier,
                policies=tuple(
                    replace(p, ingress=kept(p.ingress), egress=kept(p.egress))
                    for p in tier.policies
                ),
            )
            for tier in case.policies.tiers
        ),
    )


def repaired_labels(labels: dict[str, str], requirement: Requirement) -> dict[str, str]:
    """The labels with just one changed, so that the requirement holds."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.IN | Operator.STARTS_WITH | Operator.ENDS_WITH | Operator.CONTAINS:
            return labels | {key: values[0]}
        case Operator.EXISTS:
            return labels | {key: ""}
        case Operator.NOT_IN | Operator.DOES_NOT_EXIST:
            return {k: v for k, v in labels.items() if k != key}


def repair_pod(pod: Endpoint, reason: Reason) -> Endpoint:
    """The pod, changed only where the reason says."""
    match reason:
        case OtherNamespace(_, wanted, has):
            assert pod.namespace == has != wanted
            return replace(pod, namespace=wanted)
        case RequirementFails(_, Attribute.LABEL, requirement, has):
            assert pod.labels.get(requirement.key) == has
            return replace(pod, labels=repaired_labels(dict(pod.labels), requirement))
        case RequirementFails(_, Attribute.NAMESPACE_LABEL, requirement, has):
            assert pod.namespace_labels.get(requirement.key) == has
            labels = repaired_labels(dict(pod.namespace_labels), requirement)
            return replace(pod, namespace_labels=labels)
        case _:
            pytest.fail(f"a label selector fails by {reason}")


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_missing_labels_are_exactly_the_reasons_of_a_mismatch(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    for selector, pod in selectors_and_pods(case):
        reasons = selector_reasons(selector, pod)
        assert (not reasons) == selects(selector, pod)
        keys = [(type(r), getattr(getattr(r, "requirement", None), "key", "")) for r in reasons]
        if len(set(keys)) < len(keys):
            continue  # two requirements on one key may contradict each other
        for left_out in range(len(reasons)):
            mended = pod
            for at, reason in enumerate(reasons):
                if at != left_out:
                    mended = repair_pod(mended, reason)
            assert not selects(selector, mended) or contradicts(selector)
            assert selects(selector, repair_pod(mended, reasons[left_out])) or contradicts(selector)


def selectors_and_pods(case: Case) -> Iterator[tuple[EndpointSelector, Endpoint]]:
    for tier in case.policies.tiers:
        for policy in tier.policies:
            for rule in (*policy.ingress, *policy.egress):
                for peer in rule.peers:
                    if isinstance(peer, EndpointPeer):
                        yield from ((peer.selector, pod) for pod in case.universe.endpoints)


def contradicts(selector: EndpointSelector) -> bool:
    """Whether two requirements of the selector read one key: mending one may break the other."""
    for labels in (selector.labels, selector.namespace_labels):
        keys = [requirement.key for requirement in labels.requirements]
        if len(set(keys)) < len(keys):
            return True
    return False


def peers_of(case: Case):  # type: ignore[no-untyped-def]
    for tier in case.policies.tiers:
        for policy in tier.policies:
            for rule in (*policy.ingress, *policy.egress):
                yield from rule.peers


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_reasons_about_addresses_and_exclusions_are_true(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng)
    subject = case.universe.endpoints[0]
    for flow in case.flows(rng, 6):
        for peer in peers_of(case):
            other = as_seen(flow.dst)
            reasons = peer_reasons(peer, other, flow.family, subject)
            assert (not reasons) == peer_matches(peer, other, flow.family, subject)
            for reason in reasons:
                match reason:
                    case OutsideBlock(address, network):
                        assert address not in network
                        inside = network.network_address
                        block = AddressPeer(network)
                        assert peer_matches(block, inside, network.version, subject)
                    case InsideExcept(address, network, hole):
                        assert address in network and address in hole
                        assert peer_matches(AddressPeer(network), address, flow.family, subject)
                    case Excluded(_, excluded):
                        assert peer_matches(excluded, other, flow.family, subject)
                    case _:
                        assert not isinstance(peer, AnyPeer | AddressPeer) or reason.words


def mended_service(reason: Reason, ports: Ports, service: Service) -> Service:
    """The service, changed only where the reason says."""
    match reason:
        case OutsidePorts(port, lo, hi):
            assert port == service.value and not lo <= port <= hi
            return replace(service, value=lo)
        case OtherIcmp(_, wanted):
            return replace(service, value=(wanted.type or 0) << 8 | (wanted.code or 0))
        case OtherProtocol(_, wanted):
            return replace(service, number=number_of(wanted))
        case _:
            pytest.fail(f"a service fails by {reason}")


def number_of(ports: Ports) -> int:
    match ports:
        case EveryPort(protocol) | PortRange(protocol) | NamedPort(protocol):
            return protocol.value
        case IcmpType(kind):
            return 1 if kind is Kind.ICMP else 58
        case ProtocolNumber(number):
            return number
        case AnyService():
            pytest.fail("every service is one of any")


@settings(max_examples=examples(150, 2))
@given(SEEDS)
def test_correcting_the_reported_ports_makes_a_rule_match(seed: int) -> None:
    rng = random.Random(seed)
    case = tiered_case(rng)
    entries = [
        port
        for tier in case.policies.tiers
        for policy in tier.policies
        for rule in (*policy.ingress, *policy.egress)
        for port in rule.ports
    ]
    for flow in case.flows(rng, 6):
        for ports in entries:
            service, destination = flow.service, as_seen(flow.dst)
            for _ in range(3):  # the protocol, then the port or type
                reasons = service_reasons(ports, destination, service)
                if not reasons:
                    break
                (reason,) = reasons
                if isinstance(reason, NotDeclared):
                    declared = ContainerPort(reason.name, reason.protocol.name, service.value)
                    if isinstance(destination, Endpoint):
                        destination = replace(destination, ports=(declared,))
                    else:
                        assert not reason.is_pod
                        destination = Endpoint("a", "p", ports=(declared,))
                else:
                    service = mended_service(reason, ports, service)
            assert service_matches(ports, destination, service)


def test_a_reason_names_the_required_and_the_actual_value() -> None:
    pod = Endpoint("shop", "web", {"app": "db"}, addresses=(ip_address("10.0.0.1"),))
    wanted = Requirement("app", Operator.IN, ("web",))
    (reason,) = selector_reasons(EndpointSelector("shop", labels=_labels(wanted)), pod)
    assert reason.words == "shop/web: label app=web is required, but it has app=db"
    (reason,) = peer_reasons(NodePeer(), pod, 4, pod)
    assert reason.words == "shop/web is not a node"


def _labels(*requirements: Requirement):  # type: ignore[no-untyped-def]
    from policyc.ir.selectors import LabelSelector

    return LabelSelector(requirements)
