# SPDX-License-Identifier: Apache-2.0
"""Small policy sets with intents whose answers are known, in both universes.

Used twice: the answers are what they should be, and every deliberate bug in the encoding makes one of
them wrong or is refused by the reference semantics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from policyc.ir.intents import ANY_SERVICES, Intent, IntentKind, Scope
from policyc.ir.policy import (
    ALWAYS,
    ANY_PEER,
    EVERY_ENDPOINT,
    NEVER,
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    Direction,
    EndpointPeer,
    EndpointSelector,
    IcmpType,
    LabelSelector,
    NamedPort,
    Network,
    NodePeer,
    Not,
    OneOf,
    Operator,
    Peer,
    Policy,
    PolicySet,
    PortRange,
    Ports,
    Requirement,
    Rule,
    Tier,
    TierMode,
    Where,
)
from policyc.ir.results.verify import IntentAnswer, IntentStatus
from policyc.ir.services import Kind, Protocol
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import ContainerPort, Endpoint, HostInterface, Node, Universe
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.intents.intents import verify_intents
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_terms import ConnectionTerms

HELD, BROKEN, VACUOUS = IntentStatus.HOLDS, IntentStatus.BROKEN, IntentStatus.VACUOUS
INGRESS, EGRESS = frozenset({Direction.INGRESS}), frozenset({Direction.EGRESS})
SQL: tuple[Ports, ...] = (PortRange(Protocol.TCP, 5432, 5432),)
SSH: tuple[Ports, ...] = (PortRange(Protocol.TCP, 22, 22),)
HTTP: tuple[Ports, ...] = (NamedPort(Protocol.TCP, "http"),)


def label(key: str, value: str) -> Requirement:
    return Requirement(key, Operator.IN, (value,))


def app(value: str, namespace: str | None = "shop") -> EndpointSelector:
    return EndpointSelector(namespace, labels=LabelSelector((label("app", value),)))


def pods(value: str) -> Peer:
    return EndpointPeer(app(value))


def spaces(key: str, value: str) -> Peer:
    selector = LabelSelector((label(key, value),))
    return EndpointPeer(EndpointSelector("shop", namespace_labels=selector))


def block(network: str, *excepts: str) -> AddressPeer:
    return AddressPeer(ip_network(network), tuple(map(ip_network, excepts)))


ALL = EndpointPeer(EVERY_ENDPOINT)
WORLD = Not(OneOf((ALL, NodePeer())))
NODES, OWN_NODE = NodePeer(), NodePeer(where=Where.LOCAL)


def origin(line: int, path: str = "spec.ingress[0]") -> Origin:
    return Origin(Span("p.yaml", line, 3), path)


def rule(*peers: Peer, ports: tuple[Ports, ...] = (AnyService(),), **change: object) -> Rule:
    return Rule(Action.ALLOW, peers, ports, origin(10), **change)  # type: ignore[arg-type]


def closed(
    subject: EndpointSelector,
    *rules: Rule,
    isolates: frozenset[Direction] = INGRESS,
    hosts: Condition = NEVER,
    kind: str = "NetworkPolicy",
) -> PolicySet:
    """One policy that isolates its subject but for these rules."""
    ingress, egress = (rules, ()) if isolates == INGRESS else ((), rules)
    policy = Policy(
        kind, "shop", "p", subject, isolates, ingress, egress, origin(1, ""), hosts=hosts
    )
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


def intent(
    kind: str,
    src: Peer = ANY_PEER,
    dst: Peer = ANY_PEER,
    services: tuple[Ports, ...] = ANY_SERVICES,
    *,
    scope: Scope = Scope.END_TO_END,
    builtin: bool = False,
) -> Intent:
    return Intent(
        IntentKind(kind), services, (src,), (dst,), origin(1, "intents[0]"), scope, builtin
    )


@dataclass(frozen=True)
class Question:
    """A policy set, an intent about it, and the answer; over a cluster where there is one."""

    name: str
    policies: PolicySet
    intent: Intent
    status: IntentStatus
    says: str = ""
    cluster: Universe | None = None
    networks: tuple[Network, ...] = ()

    def answer(self) -> IntentAnswer:
        """The verifier's answer."""
        connection: ConnectionTerms
        if self.cluster is None:
            connection = Connection((self.policies,), (self.intent,), self.networks)
        else:
            given = (self.intent,)
            connection = ClusterConnection((self.policies,), self.cluster, given, self.networks)
        (found,), _ = verify_intents(connection, self.policies, (self.intent,))
        return found

    def check(self) -> None:
        """AssertionError where the verifier says anything else."""
        found = self.answer()
        assert found.status is self.status, f"{self.name}: {found}"
        assert self.says in found.explanation, f"{self.name}: {found.explanation}"


DB = closed(app("db"), rule(pods("web"), ports=SQL))
NO_SQL_OUT = closed(app("web"), rule(Not(pods("db")), ports=(AnyService(),)), isolates=EGRESS)
NOTHING = PolicySet(())
SHUT = closed(EVERY_ENDPOINT)
CALICO = "GlobalNetworkPolicy.projectcalico.org"
GUARDED = closed(EVERY_ENDPOINT, hosts=ALWAYS, kind=CALICO)
SOME_GUARDED = closed(
    EVERY_ENDPOINT, hosts=AttributeTest(Attribute.LABEL, label("role", "x")), kind=CALICO
)
HOSTS_OUT = closed(EVERY_ENDPOINT, isolates=EGRESS, hosts=ALWAYS, kind=CALICO)
OTHER_HOSTS = NodePeer(AttributeTest(Attribute.LABEL, label("role", "y")))
WEB_PORT: tuple[Ports, ...] = (PortRange(Protocol.TCP, 80, 80),)
TO_OWN = intent("never", OWN_NODE, pods("db"), scope=Scope.INGRESS)
SOLICIT: tuple[Ports, ...] = (IcmpType(Kind.ICMPV6, 135),)

SYMBOLIC = [
    Question("one client", DB, intent("only", pods("web"), pods("db"), SQL), HELD),
    Question("another client", DB, intent("only", pods("api"), pods("db"), SQL), BROKEN),
    Question("never, let through", DB, intent("never", pods("web"), pods("db")), BROKEN),
    Question("never, kept out", DB, intent("never", pods("api"), pods("db")), HELD),
    Question("always", DB, intent("always", pods("web"), pods("db"), SQL), HELD),
    Question("always, another port", DB, intent("always", pods("web"), pods("db"), SSH), BROKEN),
    Question("always, end to end", NO_SQL_OUT, intent("always", pods("web"), pods("db")), BROKEN),
    Question("never, end to end", NO_SQL_OUT, intent("never", pods("web"), pods("db")), HELD),
    Question(
        "ingress alone",
        NO_SQL_OUT,
        intent("never", pods("web"), pods("db"), scope=Scope.INGRESS),
        BROKEN,
    ),
    Question(
        "egress alone", NO_SQL_OUT, intent("never", pods("web"), pods("db"), scope=Scope.EGRESS), HELD
    ),
    Question(
        "egress alone, let through",
        DB,
        intent("never", pods("api"), pods("db"), scope=Scope.EGRESS),
        BROKEN,
    ),
    Question("isolated", DB, intent("isolated", pods("api"), pods("db")), HELD),
    Question("isolated, let through", DB, intent("isolated", pods("web"), pods("db")), BROKEN),
    Question(
        "on both sides", SHUT, intent("isolated", spaces("a", "1"), spaces("b", "2")), BROKEN,
        "both sides",
    ),
    Question("two pods alike", NOTHING, intent("never", pods("web"), pods("web")), BROKEN),
    Question("two pods alike, kept apart", DB, intent("never", pods("db"), pods("db")), HELD),
    Question(
        "itself, built in", DB, intent("never", pods("db"), pods("db"), builtin=True), BROKEN
    ),
    Question("its own node", SHUT, TO_OWN, VACUOUS, "always passes"),
    Question(
        "its own node, included",
        SHUT,
        intent("always", OWN_NODE, pods("db"), builtin=True),
        VACUOUS,
        "always passes",
    ),
    Question(
        "any node, included", SHUT, intent("always", NODES, pods("db"), builtin=True), BROKEN
    ),
    Question("nodes", SHUT, intent("never", NODES, pods("db"), scope=Scope.INGRESS), HELD),
    Question(
        "neighbours",
        SHUT,
        intent("always", pods("web"), block("ff02::/16"), SOLICIT, builtin=True),
        VACUOUS,
        "always passes",
    ),
    Question(
        "neighbours elsewhere",
        closed(EVERY_ENDPOINT, isolates=EGRESS),
        intent("always", pods("web"), block("2001:db8::/32"), SOLICIT, builtin=True),
        BROKEN,
    ),
    Question(
        "one namespace has one set of labels",
        SHUT,
        intent("never", spaces("env", "dev"), spaces("env", "prod")),
        VACUOUS,
        "between them",
    ),
    Question(
        "one address is one end",
        NOTHING,
        intent("never", block("10.0.0.1/32"), block("10.0.0.1/32")),
        VACUOUS,
        "always passes",
    ),
    Question(
        "only pods have named ports", NOTHING, intent("never", ALL, WORLD, HTTP), VACUOUS, "between"
    ),
    Question(
        "an address that is taken out",
        closed(EVERY_ENDPOINT, rule(block("10.1.0.0/16"))),
        intent("never", block("10.0.0.0/8", "10.1.0.0/16"), pods("db")),
        HELD,
    ),
    Question("outside to outside", SHUT, intent("never", WORLD, WORLD), VACUOUS, "between them"),
    Question(
        "no such source",
        DB,
        intent("never", EndpointPeer(EndpointSelector(labels=LabelSelector((
            label("a", "1"), Requirement("a", Operator.DOES_NOT_EXIST)
        )))), pods("db")),
        VACUOUS,
        "`from`",
    ),
    Question(
        "no such destination", DB, intent("never", ALL, AllOf((ALL, NODES))), VACUOUS, "`to`"
    ),
    Question("only from everybody", DB, intent("only", ANY_PEER, pods("db")), VACUOUS, "every peer"),
    Question(
        "only from nobody", SHUT, intent("only", AllOf((ALL, NODES)), ALL), VACUOUS, "`from`"
    ),
    Question(
        "a destination that is no endpoint",
        SHUT,
        intent("always", ALL, WORLD, scope=Scope.INGRESS),
        VACUOUS,
        "no policy applies",
    ),
    Question("a guarded node", GUARDED, intent("always", WORLD, NODES), BROKEN),
    Question("a guarded node without policies", SOME_GUARDED,
             intent("always", WORLD, OTHER_HOSTS), BROKEN),
    Question("an unguarded node", SHUT, intent("always", WORLD, NODES), VACUOUS, "no policy"),
    Question(
        "pods have their networks",
        SHUT,
        intent("never", AllOf((block("10.0.0.0/8"), WORLD)), pods("db")),
        VACUOUS,
        "`from`",
        networks=(ip_network("10.0.0.0/8"),),
    ),
    Question(
        "pods are in their networks",
        NOTHING,
        intent("never", AllOf((block("11.0.0.0/8"), ALL)), pods("db")),
        VACUOUS,
        "`from`",
        networks=(ip_network("10.0.0.0/8"),),
    ),
]  # fmt: skip


def pod(name: str, number: int, **change: object) -> Endpoint:
    given: dict[str, object] = {
        "labels": {"app": name},
        "addresses": (ip_address(f"10.0.0.{number}"),),
        **change,
    }
    return Endpoint("shop", name, **given)  # type: ignore[arg-type]


N1 = Node("n1", addresses=(ip_address("192.0.2.1"),))
SAFE = Node("n2", addresses=(ip_address("192.0.2.2"),), host=HostInterface("eth0", {}, True, True))
CLUSTER = Universe(
    (
        pod("api", 2, is_template=True, addresses=(), addresses_known=False),
        pod("db", 3, node="n1", its_node=N1),
        pod("proxy", 1, host_network=True, node="n1", its_node=N1, addresses=N1.addresses),
        pod("on-n2", 5, node="n2", its_node=SAFE),
        pod("web", 4, ports=(ContainerPort("http", "TCP", 8080),)),
    ),
    (N1, SAFE),
)
OFFICE = closed(app("db"), rule(block("198.51.100.7/32")))
HTTP_IN = closed(app("web"), rule(ALL, ports=(PortRange(Protocol.TCP, 8080, 8080),)))


def here(
    name: str, policies: PolicySet, asked: Intent, status: IntentStatus, says: str = ""
) -> Question:
    return Question(name, policies, asked, status, says, CLUSTER)


GIVEN = [
    here("one client", DB, intent("only", pods("web"), pods("db"), SQL), HELD),
    here("let through", DB, intent("never", pods("web"), pods("db")), BROKEN),
    here("only from a pod that is not there", DB, intent("only", pods("x"), pods("db"), SSH),
         VACUOUS, "`from`"),
    here("never from a pod that is not there", DB, intent("never", pods("x"), pods("db")),
         VACUOUS, "`from`"),
    here("a template has replicas", NOTHING, intent("never", pods("api"), pods("api")), BROKEN),
    here("one pod alone", NOTHING, intent("never", pods("web"), pods("web")), VACUOUS, "always passes"),
    here("one pod alone, included", NOTHING,
         intent("never", pods("web"), pods("web"), builtin=True), BROKEN),
    here("a pod's address is nobody else's", SHUT,
         intent("never", AllOf((block("10.0.0.4/32"), WORLD)), pods("db")), VACUOUS, "`from`"),
    here("a port by name", HTTP_IN, intent("always", ALL, pods("web"), HTTP), HELD),
    here("a port that nobody has", HTTP_IN, intent("always", ALL, pods("db"), HTTP),
         VACUOUS, "between them"),
    here("its own node", SHUT, TO_OWN, VACUOUS, "always passes"),
    here("another node", SHUT, intent("never", NodePeer(), pods("db"), scope=Scope.INGRESS), HELD),
    here("a node that is on nobody's way", NOTHING,
         intent("never", NodePeer(where=Where.REMOTE), pods("db")), BROKEN),
    here("a failsafe port", GUARDED, intent("never", WORLD, NODES, SSH), BROKEN),
    here("a host's own egress is not asked on the way to its pods", HOSTS_OUT,
         intent("never", OWN_NODE, pods("on-n2"), WEB_PORT, builtin=True), BROKEN),
    here("it is asked on the way to others'", HOSTS_OUT,
         intent("never", block("192.0.2.2/32"), pods("db"), WEB_PORT, builtin=True), HELD),
    here("a guarded host", GUARDED,
         intent("always", WORLD, block("192.0.2.2/32"), WEB_PORT), BROKEN),
    here("pods in the host's network are no pods", SHUT,
         intent("never", pods("proxy"), pods("db")), VACUOUS, "`from`"),
    here("a replica may be anywhere", OFFICE, intent("only", pods("web"), pods("db")), BROKEN),
    Question("a replica is where pods live", OFFICE, intent("never", pods("api"), pods("db")), HELD,
             "", CLUSTER, (ip_network("10.0.0.0/8"),)),
    here("an outsider may have what a replica could", OFFICE,
         intent("never", AllOf((block("198.51.100.7/32"), WORLD)), pods("db")), BROKEN),
    Question("an empty cluster", SHUT, intent("never"), VACUOUS, "no connections", Universe()),
]  # fmt: skip
QUESTIONS = [*SYMBOLIC, *GIVEN]


def check_all(skip: Callable[[Question], bool] = lambda _: False) -> None:
    """AssertionError if an answer differs from the expected one."""
    for question in QUESTIONS:
        if not skip(question):
            question.check()
