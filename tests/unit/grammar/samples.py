# SPDX-License-Identifier: Apache-2.0
"""Sentences of the rule language: some by hand, and as many as wanted by chance."""

from hypothesis import strategies as st

RULES = (
    "ingress:",
    "egress:",
    "pass",
    "deny",
    "allow any",
    "allow any from any",
    'allow tcp/8443 from pod.app == "gateway" && ns.env in {\'prod\', "staging"} as "g"',
    "allow icmp echo-request from 10.0.0.0/8 except 10.9.0.0/16",
    "allow icmp, icmp 8, icmpv6 1 code 4, icmpv6, protocol 47, udp, sctp/any from ::/0",
    "reject tcp/22 from any log",
    "allow udp/53, tcp/53 to service kube-system/kube-dns",
    "deny any to 169.254.169.254/32 log",
    "allow from 10.0.0.0/8 except {10.1.0.0/16, 10.2.0.0/16}, ::1 or entity world, node all",
    'allow from node node.zone == "a", node == "n1", node["a/b"] exists',
    'allow from !(pod.a exists || has(ns["x/y"])) && !!all or serviceaccount != "x"',
    'allow from serviceaccount.team not in {"a", "b"} && namespace == "shop"',
    'allow from pod.a starts with "x" && pod.b ends with "y" && pod.c contains "z"',
    'allow tcp/http limit 100/s burst 200 log as "n"',
    "allow any except tcp/80 from any",
    "deny tcp, udp except {udp/53, tcp/x} to entity world in ::/0 except {::1, ::2} log",
    'allow from node node.zone == "a" in 10.0.0.0/8, (pod.a exists || all) in ::/0 or any',
    'allow to entity remote-node with node.zone == "a" in ::/0, entity host with all',
    'allow tcp/80 from pod.a exists to pod.b == "x", 10.0.0.0/8 as "both sides"',
    "log tcp/1-2 from any",
    "audit",
)
INTENTS = (
    "never any",
    'never tcp/5432 from ns.env == "dev" to pod.app == "db" as "n" because "r"',
    "always tcp/443 from any to all ingress including builtin",
    'only from pod.role == "api" to pod.app == "db" egress',
    "only udp from 10.0.0.0/8 to any",
    'isolated ns.tenant == "a" from ns.tenant == "b", entity world',
    "always to entity host",
)


def list_of(text: str, between: str = " ") -> list[str]:
    """The words of a text."""
    return text.split(between)


def _seldom(strategy: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), strategy)


TEXTS = st.sampled_from(['"a"', '"web-1"', "'b'", '""'])
ATTRIBUTES = st.sampled_from(
    ["pod.app", 'pod["a/b"]', "ns.env", "node.zone", "namespace", "node", "serviceaccount"]
)
TESTS = st.one_of(
    st.builds(lambda a, o, v: f"{a} {o} {v}", ATTRIBUTES, st.sampled_from(["==", "!="]), TEXTS),
    st.builds(
        lambda a, o, v: f"{a} {o} {{{', '.join(v)}}}",
        ATTRIBUTES,
        st.sampled_from(["in", "not in"]),
        st.lists(TEXTS, min_size=1, max_size=3),
    ),
    st.builds(lambda a: f"{a} exists", ATTRIBUTES),
    st.builds(lambda a: f"has({a})", ATTRIBUTES),
    st.builds(
        lambda a, o, v: f"{a} {o} {v}",
        ATTRIBUTES,
        st.sampled_from(["starts with", "ends with", "contains"]),
        TEXTS,
    ),
    st.just("all"),
)
EXPRESSIONS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds("!({})".format, inner),
        st.builds("({})".format, inner),
        st.builds(
            lambda parts, o: f" {o} ".join(parts),
            st.lists(inner, min_size=2, max_size=3),
            st.sampled_from(["&&", "||"]),
        ),
    ),
    max_leaves=6,
)
SERVICES = st.lists(
    st.sampled_from(
        [
            "any",
            "tcp",
            "udp/53",
            "tcp/1-2",
            "sctp/x",
            "icmp echo-request",
            "icmpv6 1 code 4",
            "icmp",
            "protocol 47",
        ]
    ),
    max_size=3,
).map(", ".join)
EXCEPTIONS = st.sampled_from(["", "", " except tcp/1", " except {tcp/1, udp}", " except {icmp}"])
PEER = st.one_of(
    EXPRESSIONS,
    EXPRESSIONS.map("({}) in 10.0.0.0/8 except 10.1.0.0/16".format),
    st.sampled_from(
        [
            "any",
            "10.0.0.1",
            "10.0.0.0/8 except 10.1.0.0/16",
            "::/0 except {::1, ::2}",
            "service a/b",
            "entity world",
            "entity world in 10.0.0.0/8",
            "node all in ::/0 except {::1, ::2}",
            'entity host with node.a == "b" || all',
        ]
    ),
    EXPRESSIONS.map("node {}".format),
)
PEERS = st.builds(
    lambda peers, word: word.join(peers),
    st.lists(PEER, min_size=1, max_size=3),
    st.sampled_from([", ", " or "]),
)
RULE = st.builds(
    lambda *words: " ".join(word for word in words if word),
    st.sampled_from(["allow", "deny", "reject", "pass", "log", "audit"]),
    st.builds(lambda some, others: some and some + others, SERVICES, EXCEPTIONS),
    _seldom(PEERS.map("from {}".format)),
    _seldom(PEERS.map("to {}".format)),
    _seldom(st.just("log")),
    _seldom(st.sampled_from(["limit 10/s", "limit 10/s burst 20"])),
    _seldom(TEXTS.map("as {}".format)),
)
LINE = st.one_of(RULE, RULE, st.sampled_from(["ingress:", "egress:", "", "# a comment", "  #x"]))
BLOCKS = st.lists(
    st.builds(
        lambda blanks, line, comment: blanks + line + comment,
        st.sampled_from(["", "  ", "\t", "     "]),
        LINE,
        st.sampled_from(["", "", " # said", "#said  "]),
    ),
    max_size=8,
).map(lambda lines: "\n".join(lines) + "\n")
"""Rule blocks without mistakes, laid out badly."""
