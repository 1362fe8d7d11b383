# SPDX-License-Identifier: Apache-2.0
"""From a refuted obligation to a concrete flow on which the Decision IR is wrong.

A model is never trusted. A flow is a witness only if the reference semantics and the tables, evaluated
separately, give different answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policyc.ir.atoms import ADDRESS_BITS, AddressAtoms
from policyc.ir.decide import decide_tables
from policyc.ir.decision import DecisionIR, RuleEntry
from policyc.ir.errors import InternalError
from policyc.ir.lookup import end_decision, entry_of
from policyc.ir.policy import (
    AddressPeer,
    Direction,
    IcmpType,
    PolicySet,
    PortRange,
    ProtocolNumber,
)
from policyc.ir.semantics import end_verdict
from policyc.ir.services import ALL_SERVICES, Kind, Service
from policyc.ir.universe import (
    FAMILIES,
    Address,
    End,
    Endpoint,
    Flow,
    Node,
    Universe,
    end_name,
)
from policyc.verifier.decision.outcome import Broken


@dataclass(frozen=True, slots=True)
class Witness:
    """A flow, the end at fault, the verdict of the policies on it and the verdict of the tables.

    `seen` None: the tables have no place for one of its ends.
    """

    flow: Flow
    direction: Direction
    wanted: RuleEntry
    seen: RuleEntry | None

    def __str__(self) -> str:
        seen = "no class" if self.seen is None else self.seen.describe()
        return (
            f"{self.flow}, {self.direction.value}: the policies say {self.wanted.describe()!r},"
            f" the tables say {seen!r}"
        )


def find_witness(
    policies: PolicySet, universe: Universe | None, decision: DecisionIR, broken: Broken
) -> Witness | None:
    """The first flow that shows the fault, the model's own place first; None if no pod can.

    A fault in the tables that the node folds is searched for in the tables that the fold would give.
    """
    if broken.lemma == "unseen":
        known = decision.rules
        decision = decide_tables(decision.atoms, decision.tables, known)
    pods = _pods(universe, decision)
    nodes = list(universe.nodes) if universe else []
    directions = [broken.direction] if broken.direction else list(Direction)
    for view in (decision, _placed_anew(decision)):
        for direction in (*directions, *Direction):
            for flow in _flows(policies, pods, nodes, view, broken, direction):
                found = _contradiction(policies, view, flow, direction)
                if found is not None:
                    return found
    return None


def _placed_anew(decision: DecisionIR) -> DecisionIR:
    """The tables as a node reads them, which places endpoints by their signatures."""
    return replace(decision, atoms=replace(decision.atoms, row_of={}))


def _contradiction(
    policies: PolicySet, decision: DecisionIR, flow: Flow, direction: Direction
) -> Witness | None:
    subject, peer = flow.src, flow.dst
    if direction is Direction.INGRESS:
        subject, peer = peer, subject
    if not isinstance(subject, Endpoint) or end_name(subject) == end_name(peer):
        return None
    wanted = entry_of(end_verdict(policies, direction, subject, peer, flow))
    seen: RuleEntry | None = None
    try:
        seen = end_decision(decision, direction, subject, peer, flow)
    except (LookupError, ValueError, InternalError):  # no such row, column or rule: also a fault
        seen = None
    return None if seen == wanted else Witness(flow, direction, wanted, seen)


def _flows(
    policies: PolicySet,
    pods: list[Endpoint],
    nodes: list[Node],
    decision: DecisionIR,
    broken: Broken,
    direction: Direction,
) -> Iterator[Flow]:
    """Flows at the place the solver named, then at every other place."""
    keys = _keys(policies, pods)
    if broken.key is not None and broken.key in ALL_SERVICES:
        keys.insert(0, broken.key)
    subjects = sorted(
        pods, key=lambda pod: decision.atoms.row_of.get(pod.qualified_name) != broken.row
    )
    for subject in subjects:
        for family in FAMILIES:
            if subject.address(family) is None:
                continue
            for peer in _peers(pods, nodes, decision, broken, family):
                for key in keys:
                    service = Service.from_key(key)
                    if direction is Direction.EGRESS:
                        yield Flow(subject, peer, service, family)
                    else:
                        yield Flow(peer, subject, service, family)


def _peers(
    pods: list[Endpoint], nodes: list[Node], decision: DecisionIR, broken: Broken, family: int
) -> Iterator[End]:
    if broken.address is not None and broken.family == family:
        yield _address(broken.address, family)
    yield from (pod for pod in pods if pod.address(family) is not None)
    yield from (node for node in nodes if node.address(family) is not None)
    atoms = decision.atoms.classifier.addresses[family]
    ends: tuple[Endpoint | Node, ...] = (*pods, *nodes)
    held = {int(a) for end in ends if (a := end.address(family)) is not None}
    for number in _edges(decision, atoms):
        if number not in held:
            yield _address(number, family)


def _edges(decision: DecisionIR, atoms: AddressAtoms) -> list[int]:
    """Addresses at the edges of every run and every block of the rules."""
    numbers = {number for lo, hi, _ in atoms.runs() for number in (lo, hi)}
    for block in decision.atoms.vocabulary.blocks:
        if block.network.version == atoms.family:
            numbers |= _block_edges(block)
    limit = 1 << ADDRESS_BITS[atoms.family]
    return sorted(number for number in numbers if 0 <= number < limit)


def _block_edges(block: AddressPeer) -> set[int]:
    edges = set()
    for network in (block.network, *block.excepts):
        first, last = int(network.network_address), int(network.broadcast_address)
        edges |= {first - 1, first, last, last + 1}
    return edges


def _address(number: int, family: int) -> Address:
    return IPv4Address(number) if family == 4 else IPv6Address(number)


def _keys(policies: PolicySet, pods: list[Endpoint]) -> list[int]:
    """The edges of every port range, named port and ICMP type, and one key of every kind."""
    keys = {kind << 16 | value for kind in Kind for value in (0, 1)}
    numbers = {port.number for pod in pods for port in pod.ports}
    for tier in policies.tiers:
        for policy in tier.policies:
            for direction in Direction:
                for rule in policy.rules(direction):
                    for ports in (*rule.ports, *rule.except_ports):
                        if isinstance(ports, PortRange):
                            numbers |= {ports.lo - 1, ports.lo, ports.hi, ports.hi + 1}
                        elif isinstance(ports, ProtocolNumber):
                            keys.add(Service(ports.number).key)
                        elif isinstance(ports, IcmpType):
                            value = (ports.type or 0) << 8 | (ports.code or 0)
                            keys |= {ports.kind << 16 | value, ports.kind << 16 | value + 1}
    for kind in (Kind.TCP, Kind.UDP, Kind.SCTP):
        keys |= {kind << 16 | n for n in numbers if 0 <= n <= 0xFFFF}
    return sorted(key for key in keys if key in ALL_SERVICES)


def _pods(universe: Universe | None, decision: DecisionIR) -> list[Endpoint]:
    """The endpoints, each with addresses; hypothetical ones if none are given."""
    if universe is None:
        return _hypothetical(decision)
    pods = []
    for at, endpoint in enumerate(universe.endpoints):
        if endpoint.host_network:
            continue
        if not endpoint.addresses_known:
            made = (IPv4Address(0x64400000 + at), IPv6Address((0xFD << 120) + at))
            endpoint = replace(endpoint, addresses=made, addresses_known=True)
        pods.append(endpoint)
    return pods


def _hypothetical(decision: DecisionIR) -> list[Endpoint]:
    """One pod per selector that requires plain labels, in the namespace it names."""
    pods = []
    for at, selector in enumerate(decision.atoms.vocabulary.selectors):
        labels = {r.key: r.values[0] if r.values else "" for r in selector.labels.requirements}
        spaces = {
            r.key: r.values[0] if r.values else "" for r in selector.namespace_labels.requirements
        }
        addresses = (IPv4Address(0x64400000 + at), IPv6Address((0xFD << 120) + at))
        namespace = selector.namespace or "any"
        name = f"hypothetical-{at}"
        pods.append(Endpoint(namespace, name, labels, spaces, addresses=addresses))
    return pods
