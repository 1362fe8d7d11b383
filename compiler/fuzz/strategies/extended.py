# SPDX-License-Identifier: Apache-2.0
"""Random ExtendedPolicies: every action, services, peers and expressions of the rule language."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.words import (
    ACCOUNTS,
    INSIDE,
    KEYS,
    NAMESPACES,
    NETWORKS,
    NUMBERS,
    PORT_NAMES,
    VALUES,
    Strategy,
    Value,
    lists,
    named,
    namespaces,
    often,
    ranges,
)

VERSION = "policyc.dev/v1alpha1"
_TIERS = (0, 500, 2000, 5_000_000, 20_000_000)
_ACTIONS = ("allow", "deny", "reject", "pass", "log", "audit")


def _test(what: str, values: tuple[str, ...]) -> Strategy:
    value = st.sampled_from(values)
    part = st.sampled_from(tuple(filter(None, values)))  # every value contains the empty text
    among = st.tuples(
        st.sampled_from(("in", "not in")), st.sets(value, min_size=1, max_size=2)
    ).map(lambda both: f"{both[0]} {{{', '.join(_quoted(each) for each in sorted(both[1]))}}}")
    return st.one_of(
        st.one_of(
            st.tuples(st.sampled_from(("==", "!=")), value),
            st.tuples(st.sampled_from(("starts with", "ends with", "contains")), part),
        ).map(lambda both: f"{what} {both[0]} {_quoted(both[1])}"),
        among.map(lambda found: f"{what} {found}"),
        st.just(f"{what} exists"),
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


_pod_tests = st.one_of(
    *(_test(f"pod.{key}", VALUES) for key in KEYS),
    _test("ns.team", ("x", "z")),
    _test("serviceaccount.app", VALUES),
    _test("node.zone", ("1", "2")),
    st.sampled_from(ACCOUNTS).map(lambda name: f"serviceaccount == {_quoted(name)}"),
    st.sampled_from(NAMESPACES).map(lambda name: f"namespace == {_quoted(name)}"),
    st.just("all"),
)
_node_tests = st.one_of(_test("node.zone", ("1", "2")), st.just("all"))


def _expressions(tests: Strategy) -> Strategy:
    return st.one_of(
        tests,
        st.builds(
            lambda a, how, b: f"({a}) {how} ({b})", tests, st.sampled_from(("&&", "||")), tests
        ),
        tests.map(lambda a: f"!({a})"),
    )


_pods = _expressions(_pod_tests)
_blocks = st.one_of(
    st.sampled_from(NETWORKS),
    st.sampled_from(tuple(INSIDE)).flatmap(
        lambda cidr: st.sampled_from(INSIDE[cidr]).map(lambda hole: f"{cidr} except {{{hole}}}")
    ),
)
_peers = st.one_of(
    st.just("any"),
    _pods,
    _blocks,
    st.sampled_from(("world", "cluster", "host", "remote-node")).map(lambda name: f"entity {name}"),
    _node_tests.map(lambda found: f"node {found}"),
    st.tuples(st.sampled_from(("entity world", "node all")), _blocks).map(
        lambda both: f"{both[0]} in {both[1]}"
    ),
)
_ports = st.one_of(
    st.just("any"),
    st.sampled_from(("tcp", "udp", "sctp")).flatmap(
        lambda protocol: st.one_of(
            st.just(protocol),
            st.sampled_from((*NUMBERS, *PORT_NAMES)).map(lambda port: f"{protocol}/{port}"),
            ranges(1).map(lambda both: f"{protocol}/{both[0]}-{both[1]}"),
        )
    ),
    st.sampled_from(
        (
            "icmp",
            "icmp echo-request",
            "icmp 8",
            "icmp 3 code 4",
            "icmpv6 packet-too-big",
            "protocol 47",
        )
    ),
)
_services = st.tuples(
    lists(_ports, 2, 1), st.none() | _ports.filter(lambda found: found != "any")
).map(lambda both: ", ".join(both[0]) + (f" except {both[1]}" if both[1] else ""))


def _rule(is_ingress: bool) -> Strategy:
    def text(action: str, services: str, peers: list[str], own: str | None, has_log: bool) -> str:
        sides = [" or ".join(peers), own] if is_ingress else [own, " or ".join(peers)]
        written = [
            f" {word} {given}" for word, given in zip(("from", "to"), sides, strict=True) if given
        ]
        noted = " log" if has_log and action not in ("log", "audit") else ""
        return f"{action} {services}{''.join(written)}{noted}"

    own = st.none() | _blocks
    actions = st.sampled_from((*_ACTIONS, *_ACTIONS[:4]))
    return st.builds(text, actions, _services, lists(_peers, 2, 1), own, st.booleans())


def _sections(ingress: list[str] | None, egress: list[str] | None) -> str:
    found = ""
    for name, rules in (("ingress", ingress), ("egress", egress)):
        if rules is not None:
            found += f"{name}:\n" + "".join(f"  {rule}\n" for rule in rules)
    return found or "ingress:\n"


_blocks_of_rules = st.builds(
    _sections,
    st.none() | lists(_rule(True), 3, 1),
    st.none() | lists(_rule(False), 3, 1),
)


def _objects(policies: list[tuple[str, int, int, str, str]]) -> list[Value]:
    return [
        named(
            VERSION,
            "ExtendedPolicy",
            f"ext{number}",
            {"tier": tier, "order": order, "appliesTo": subject, "rules": rules},
            namespace,
        )
        for number, (namespace, tier, order, subject, rules) in enumerate(policies)
    ]


def extended_policies(most: int) -> Strategy:
    """Policies in tiers before, between and after those of the standard kinds."""
    where = st.one_of(namespaces, st.just(""))
    orders = st.sampled_from((0, 10))
    one = st.tuples(where, st.sampled_from(_TIERS), orders, often("all", _pods), _blocks_of_rules)
    return lists(one, most, 1).map(_objects)
