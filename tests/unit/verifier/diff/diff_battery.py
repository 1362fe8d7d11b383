# SPDX-License-Identifier: Apache-2.0
"""A fast battery for the diff in both universes and for redundancy: known answers, then fixed seeds.

Used twice: all of it passes, and every deliberate bug makes some of it fail or is refused by the
certification (the replay of witnesses, the proof of the partition).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network

import policyc.verifier.diff.symbolic as symbolic
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    Action,
    AddressPeer,
    AnyService,
    Attribute,
    AttributeTest,
    Direction,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    NamedPort,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Requirement,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.results.diff import DifferenceKind, DiffOutcome
from policyc.ir.selectors import NO_ENDPOINT
from policyc.ir.services import Protocol
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import ContainerPort, Endpoint, HostInterface, Node, Universe
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.cluster.partition import partition_goals, prove_partition
from policyc.verifier.cluster.redundancy import Redundancy
from policyc.verifier.diff.symbolic import (
    diff_symbolic,
    end_queries,
)
from policyc.verifier.smt.solvers import (
    Answer,
    decide,
)
from tests.property import cluster_flows as test_cluster_diff
from tests.property import test_cluster_redundancy, test_diff_of_unknown_ends, test_symbolic_diff

INGRESS = frozenset({Direction.INGRESS})
HERE = Origin(Span("battery.yaml", 1, 1), "")
NARROWED, WIDENED, EQUAL = DiffOutcome.NARROWED, DiffOutcome.WIDENED, DiffOutcome.EQUAL


def selecting(namespace: str | None, *requirements: Requirement) -> EndpointSelector:
    """Pods by namespace and labels."""
    return EndpointSelector(namespace, labels=LabelSelector(tuple(requirements)))


def is_in(key: str, *values: str) -> Requirement:
    """The label has one of some values."""
    return Requirement(key, Operator.IN, values)


def isolating(name: str, subject: EndpointSelector, *peers: Peer) -> Policy:
    """A policy that isolates on ingress and lets these peers in."""
    rules = (Rule(Action.ALLOW, peers, (AnyService(),), HERE),) if peers else ()
    return Policy("NetworkPolicy", subject.namespace or "", name, subject, INGRESS, rules, (), HERE)


def in_one_tier(*policies: Policy) -> PolicySet:
    """The policies as NetworkPolicies are."""
    return PolicySet((Tier("policies", TierMode.DENY_WINS, Action.DENY, policies),))


NOT_A = Requirement("app", Operator.NOT_IN, ("a",))
APP_A, APP_B = is_in("app", "a"), is_in("app", "b")
BLOCK = AddressPeer(ip_network("10.1.0.0/16"))
A, NO_A = selecting("n", APP_A), selecting("n", NOT_A)


def symbolic_answers() -> None:
    """Two sets with obvious answers, as a whole and by namespace."""
    asked = [
        (in_one_tier(), in_one_tier(isolating("x", A)), NARROWED),
        (in_one_tier(isolating("x", A)), in_one_tier(), WIDENED),
        (in_one_tier(isolating("x", A)), in_one_tier(isolating("y", A)), EQUAL),
        # An unchanged policy of an overlapping subject already lets it in.
        (
            in_one_tier(isolating("x", NO_A, ANY_PEER)),
            in_one_tier(isolating("x", NO_A, ANY_PEER), isolating("y", selecting("n", APP_B))),
            EQUAL,
        ),
        # A policy for every namespace, named by no selector: it has pods that no policy selects.
        (
            in_one_tier(isolating("x", A)),
            in_one_tier(isolating("x", A), isolating("y", selecting(None, APP_B))),
            NARROWED,
        ),
        # What everywhere is allowed already, in a namespace that another policy names.
        (
            in_one_tier(isolating("x", selecting(None), ANY_PEER), isolating("y", A)),
            in_one_tier(isolating("x", selecting(None), ANY_PEER)),
            EQUAL,
        ),
    ]
    out = frozenset({Direction.EGRESS})
    one = isolating("x", A)
    leaving = replace(isolating("x", A, BLOCK), isolates=out)
    leaving = replace(leaving, ingress=(), egress=leaving.ingress)
    asked += [
        (in_one_tier(one), in_one_tier(replace(one, isolates=INGRESS | out)), NARROWED),
        (in_one_tier(leaving), in_one_tier(replace(leaving, egress=())), NARROWED),
        # The other end is in a namespace that a policy names, too.
        (
            in_one_tier(isolating("x", A), isolating("y", selecting("m", APP_B))),
            in_one_tier(
                isolating("x", A, EndpointPeer(selecting("m"))),
                isolating("y", selecting("m", APP_B)),
            ),
            WIDENED,
        ),
    ]
    for before, after, outcome in asked:
        assert diff_symbolic(before, after).outcome is outcome
        assert namespace_by_namespace(lambda b=before, a=after: diff_symbolic(b, a)) is outcome


def namespace_by_namespace(ask: Callable[[], symbolic.SymbolicDiff]) -> DiffOutcome:
    """The outcome where even few policies are grouped."""
    original = symbolic._FEW_POLICIES
    symbolic._FEW_POLICIES = 0
    try:
        return ask().outcome
    finally:
        symbolic._FEW_POLICIES = original


def order_counts() -> None:
    """Two policies of an ordered tier that change places; of one where denies win, they may."""
    deny = isolating("deny", A, ANY_PEER)
    deny = replace(deny, ingress=(replace(deny.ingress[0], action=Action.DENY),))
    allow = isolating("allow", A, ANY_PEER)
    for mode, outcome in ((TierMode.FIRST_MATCH, WIDENED), (TierMode.DENY_WINS, EQUAL)):
        one, other = (
            PolicySet((Tier("t", mode, Action.PASS, each),))
            for each in ((deny, allow), (allow, deny))
        )
        assert diff_symbolic(one, other).outcome is outcome
        pods = cluster_of(
            *(Endpoint("n", f"p{i}", {"app": "a"}, addresses=(ip_address(f"10.0.0.{i}"),))
              for i in (1, 2))
        )  # fmt: skip
        assert diff_cluster(Change(one, pods), Change(other, pods)).outcome is outcome


def effects_and_defaults() -> None:
    """A rule that logs, too; a tier whose default is another."""
    plain = isolating("x", A, ANY_PEER)
    logs = replace(plain, ingress=(replace(plain.ingress[0], log=True),))
    closed = in_one_tier(isolating("x", A))
    passing = PolicySet((replace(closed.tiers[0], unmatched=Action.PASS),))
    pods = cluster_of(
        *(Endpoint("n", f"p{i}", {"app": "a"}, addresses=(ip_address(f"10.0.0.{i}"),))
          for i in (1, 2))
    )  # fmt: skip
    for before, after, outcome in (
        (in_one_tier(plain), in_one_tier(logs), DiffOutcome.CHANGED),
        (closed, passing, WIDENED),
    ):
        assert diff_symbolic(before, after).outcome is outcome
        both = (Change(each, pods) for each in (before, after))
        assert diff_cluster(*both).outcome is outcome
    assert (
        diff_symbolic(in_one_tier(plain), in_one_tier(logs), ignore_effects=True).outcome is EQUAL
    )


def texts_and_names() -> None:
    """Labels by prefix and suffix; every number that a pod declares under a port name."""
    for operator, label, outcome in (
        (Operator.STARTS_WITH, "ba", EQUAL), (Operator.STARTS_WITH, "ab", NARROWED),
        (Operator.ENDS_WITH, "ab", EQUAL), (Operator.ENDS_WITH, "ba", NARROWED),
    ):  # fmt: skip
        test = AttributeTest(Attribute.LABEL, Requirement("app", operator, ("a",)))
        after = in_one_tier(isolating("x", EndpointSelector(condition=test)))
        pod = Endpoint("n", "p", {"app": label}, addresses=(ip_address("10.0.0.1"),))
        sides = (Change(each, cluster_of(pod)) for each in (in_one_tier(), after))
        assert diff_cluster(*sides).outcome is outcome
    named = (NamedPort(Protocol.TCP, "http"),)
    numbers = tuple(PortRange(Protocol.TCP, port, port) for port in (80, 8080))
    declared = tuple(ContainerPort("http", "TCP", port) for port in (80, 8080))
    pods = [
        Endpoint("n", name, {"app": name}, addresses=(ip_address(f"10.0.0.{i}"),), ports=declared)
        for i, name in enumerate("ab", 1)
    ]
    leaving = replace(isolating("x", A), isolates=frozenset({Direction.EGRESS}))
    sets = (
        in_one_tier(replace(leaving, egress=(
            Rule(Action.ALLOW, (EndpointPeer(selecting("n", APP_B)),), ports, HERE),)))
        for ports in (named, numbers)
    )  # fmt: skip
    assert diff_cluster(*(Change(each, cluster_of(*pods)) for each in sets)).outcome is EQUAL


def records() -> None:
    """Attributes that distinguish ends of a cluster, and defaults that decide before any rule."""
    here = {"addresses": (ip_address("10.0.0.1"),)}, {"addresses": (ip_address("10.0.0.2"),)}
    plain = Endpoint("n", "p", {"app": "a"}, **here[0])
    http = ContainerPort("http", "TCP", 80)
    other = Endpoint("n", "q", {"app": "a"}, **here[1], ports=(http,))
    robot = replace(other, ports=(), service_account="robot")
    shut = isolating("x", A)
    named = Rule(Action.ALLOW, (ANY_PEER,), (NamedPort(Protocol.TCP, "http"),), HERE)
    robots = AttributeTest(Attribute.SERVICE_ACCOUNT, Requirement("", Operator.IN, ("robot",)))
    far = Rule(
        Action.ALLOW, (ANY_PEER,), (AnyService(),), HERE, own=AddressPeer(ip_network("10.2.0.0/16"))
    )
    template = Endpoint("n", "p", {"app": "a"}, is_template=True, addresses_known=False)
    interface = HostInterface("h", denies_unmatched=True, has_failsafes=True)
    node = Node("n1", {}, (ip_address("10.9.0.1"),), interface)
    ssh = Rule(Action.ALLOW, (ANY_PEER,), (PortRange(Protocol.TCP, 22, 22),), HERE)
    guard = replace(isolating("guard", NO_ENDPOINT), hosts=ALWAYS)
    both = cluster_of(plain, other)
    for before, after, universe, outcome in (
        (shut, replace(shut, ingress=(named,)), both, WIDENED),
        (
            None,
            isolating("x", EndpointSelector(condition=robots)),
            cluster_of(plain, robot),
            NARROWED,
        ),
        (shut, replace(shut, ingress=(far,)), cluster_of(template), WIDENED),
        (replace(guard, ingress=(ssh,)), guard, Universe((), (node,)), EQUAL),
    ):
        sides = (Change(in_one_tier(*filter(None, [p])), universe) for p in (before, after))
        assert diff_cluster(*sides).outcome is outcome
    allow = isolating("x", A, ANY_PEER)
    log = replace(allow.ingress[0], action=Action.LOG)
    noted = replace(allow, ingress=(log, *allow.ingress))
    sides = (Change(in_one_tier(p), both) for p in (allow, noted))
    assert diff_cluster(*sides, ignore_effects=True).outcome is EQUAL


def halves_and_the_whole() -> None:
    """Two halves of a block and the block: each may go, not all of them together."""
    blocks = ("10.0.0.0/9", "10.128.0.0/9", "10.0.0.0/8")
    policies = in_one_tier(
        isolating("x", A, *(AddressPeer(ip_network(block)) for block in blocks[:1])),
        *(
            isolating(f"y{n}", A, AddressPeer(ip_network(block)))
            for n, block in enumerate(blocks[1:])
        ),
    )
    pod = Endpoint("n", "p", {"app": "a"}, addresses=(ip_address("192.0.2.1"),))
    change = Change(policies, cluster_of(pod))
    found = Redundancy(diff_cluster(change, change).space, policies)
    useless = found.useless()
    assert len(useless) == 3
    assert len(found.together(useless)) in (1, 2)


def hosts() -> None:
    """Added policies of hosts only: hosts under and not under host policy differ in two ways."""
    node = Node("n1", {}, (ip_address("10.9.0.1"),), HostInterface("h"))
    nodes = Universe((), (node,))
    guard = replace(isolating("guard", replace(NO_ENDPOINT, namespace="n")), hosts=ALWAYS)
    nobody = replace(NO_ENDPOINT, namespace="elsewhere")
    allow = replace(isolating("allow", nobody, ANY_PEER), hosts=ALWAYS)
    opened, both = isolating("allow", NO_ENDPOINT, BLOCK), DiffOutcome.BOTH
    opened = replace(opened, hosts=ALWAYS)
    for before, after, outcome, here in (
        (in_one_tier(), in_one_tier(guard), NARROWED, NARROWED),
        (in_one_tier(guard), in_one_tier(), WIDENED, WIDENED),
        (in_one_tier(), in_one_tier(opened), both, NARROWED),
        (in_one_tier(), in_one_tier(allow), WIDENED, EQUAL),
        (in_one_tier(allow), in_one_tier(allow, guard), EQUAL, EQUAL),
    ):
        for most in (None, 1):
            assert diff_symbolic(before, after, most=most).outcome is outcome
        assert diff_cluster(Change(before, nodes), Change(after, nodes)).outcome is here


def latent_and_cut() -> None:
    """A latent difference is shown; a limit hides regions, but never the outcome."""
    closed = isolating("x", A)
    egress = replace(
        isolating("e", selecting("n")), isolates=frozenset({Direction.EGRESS}), ingress=()
    )
    everywhere = replace(egress, subject=selecting(None))
    inner = EndpointPeer(selecting("m"))
    before = in_one_tier(everywhere, closed)
    found = diff_symbolic(before, in_one_tier(everywhere, isolating("x", A, inner)))
    assert (found.outcome, [d.kind for d in found.differences]) == (
        EQUAL, [DifferenceKind.LATENT])  # fmt: skip
    shut = [replace(egress, name=f"e{n}", subject=selecting(f"m{n}")) for n in range(6)]
    latent = [EndpointPeer(policy.subject) for policy in shut]
    for peers in ([*latent, inner], [inner, *latent]):
        sides = (in_one_tier(*shut, isolating("x", A, *who)) for who in ((), peers))
        found = diff_symbolic(*sides, most=1)
        assert found.outcome is WIDENED
        assert DifferenceKind.WIDENED in {d.kind for d in found.differences}
    one = in_one_tier(isolating("x", A, BLOCK), isolating("y", selecting("m", APP_B)))
    other = in_one_tier(isolating("x", A), isolating("y", selecting("m", APP_B), BLOCK))
    for most in (None, 1):
        assert diff_symbolic(one, other, most=most).outcome is DiffOutcome.BOTH
    opened = in_one_tier(isolating("x", A, BLOCK), isolating("y", selecting("m", APP_B), BLOCK))
    shut = in_one_tier(isolating("x", A), isolating("y", selecting("m", APP_B)))
    assert len(diff_symbolic(opened, shut).differences) == 2
    ports = [PortRange(Protocol.TCP, port, port) for port in (80, 81)]
    sql, web = (
        in_one_tier(replace(closed, ingress=(Rule(Action.ALLOW, (ANY_PEER,), (port,), HERE),)))
        for port in ports
    )
    assert diff_symbolic(sql, web).outcome is DiffOutcome.BOTH


def where_pods_live() -> None:
    """No external host has an address of the pod network, and pods have no other address."""
    inside, outside = in_one_tier(isolating("x", A, BLOCK)), in_one_tier(isolating("x", A))
    elsewhere = ip_network("10.2.0.0/16")
    found = diff_symbolic(outside, inside, networks=(BLOCK.network,)).differences
    assert all(
        isinstance(d.witness.flow.src, Endpoint) for d in found if d.witness.flow.family == 4
    )
    assert found
    pod = isolating("x", selecting("n"), EndpointPeer(A))
    both = in_one_tier(pod), in_one_tier(isolating("x", selecting("n"), EndpointPeer(A), BLOCK))
    for difference in diff_symbolic(*both, networks=(elsewhere,)).differences:
        assert not isinstance(difference.witness.flow.src, Endpoint)

    far = Rule(Action.ALLOW, (ANY_PEER,), (AnyService(),), HERE, own=AddressPeer(elsewhere))
    shut = isolating("x", A)
    sets = in_one_tier(shut), in_one_tier(replace(shut, ingress=(far,)))
    for networks, answer in (((BLOCK.network,), Answer.UNSAT), ((), Answer.SAT)):
        found_answers = {
            decide(query.assertions()).answer for _, query in end_queries(*sets, False, networks)
        }
        assert (answer in found_answers) and (Answer.SAT in found_answers) == (not networks)


def cluster_of(*pods: Endpoint) -> Universe:
    """A universe of pods alone."""
    return Universe(pods)


def the_partition_is_proved() -> None:
    """The proof covers every region, and refuses a space that is not a partition."""
    policies = in_one_tier(isolating("x", A, BLOCK), isolating("y", NO_A))
    pods = [
        Endpoint("n", f"pod-{i}", {"app": v}, addresses=(ip_address(f"10.1.0.{i + 1}"),))
        for i, v in enumerate("abc")
    ]
    change = Change(policies, cluster_of(*pods))
    space = diff_cluster(change, change).space
    proof = prove_partition(space, (policies,))
    assert proof.pairs == proof.all_pairs == 6
    goals = [what for what, _ in partition_goals(space, (policies,))]
    assert any("/16" in goal for goal in goals)
    assert "service sets" in goals
    selector, selected = space.before.pods.answers()[0]
    space.before.pods._selected[selector] = selected ^ 1
    assert is_refused(lambda: prove_partition(space, (policies,)))
    space.before.pods._selected[selector] = selected
    space.runs[4] = space.runs[4][:1]
    assert is_refused(lambda: prove_partition(space, (policies,)))


def is_refused(prove: Callable[[], object]) -> bool:
    """The certification finds a fault."""
    from policyc.ir.errors import InternalError

    try:
        prove()
    except InternalError:
        return True
    return False


def seed_of(number: int) -> int:
    """Seeds far apart."""
    return number * 2654435761 % 2**32


@dataclass(frozen=True)
class Check:
    """One question of the battery; `name` says which."""

    name: str
    run: Callable[[], object]


SLOW = (2, 4, 10, 23, 30, 32, 44)
"""Seeds of the symbolic diff whose weakening takes seconds."""
KNOWN = (
    symbolic_answers, texts_and_names, records, halves_and_the_whole, order_counts,
    effects_and_defaults, hosts,
    latent_and_cut, where_pods_live, the_partition_is_proved,
)  # fmt: skip


def checks(n_cluster: int, n_symbolic: int) -> Iterator[Check]:
    """Known answers first, then so many seeds of each property."""
    for known in KNOWN:
        yield Check(known.__name__, known)
    for number in range(n_cluster):
        seed = seed_of(number)
        yield Check(f"cluster diff {seed}", lambda s=seed: test_cluster_diff.check(s))
        yield Check(f"redundancy {seed}", lambda s=seed: test_cluster_redundancy.check(s))
        for later in (False, True):
            yield Check(
                f"unknown ends {seed}",
                lambda s=seed, is_later=later: test_diff_of_unknown_ends.check(s, is_later),
            )
        if number < n_symbolic and number not in SLOW:
            yield Check(f"symbolic diff {seed}", lambda s=seed: test_symbolic_diff.check(s))
