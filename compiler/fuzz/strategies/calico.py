# SPDX-License-Identifier: Apache-2.0
"""Random policies of projectcalico.org, with tiers and network sets."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.words import (
    ACCOUNTS,
    KEYS,
    NETWORKS4,
    NETWORKS6,
    NUMBERS,
    PORT_NAMES,
    PROTOCOLS,
    VALUES,
    Strategy,
    Value,
    fields,
    lists,
    named,
    namespaces,
    often,
)

VERSION = "projectcalico.org/v3"
_TIERS = ("default", "low", "high")


def _tests(keys: tuple[str, ...], values: tuple[str, ...]) -> Strategy:
    key, value = st.sampled_from(keys), st.sampled_from(values)
    compared = st.sampled_from(("==", "!=", "contains", "starts with", "ends with"))
    among = st.sampled_from(("in", "not in"))
    return st.one_of(
        st.builds(lambda k, how, v: f"{k} {how} '{v}'", key, compared, value),
        st.builds(
            lambda k, how, v: f"{k} {how} {{{', '.join(repr(each) for each in sorted(v))}}}",
            key, among, st.sets(value, min_size=1, max_size=2),
        ),
        key.map(lambda k: f"has({k})"),
        st.just("all()"),
    )  # fmt: skip


def _selectors(keys: tuple[str, ...], values: tuple[str, ...]) -> Strategy:
    """Selectors of a few tests; the grammar's own tests cover deeper nesting."""
    test = _tests(keys, values)
    return st.one_of(
        test,
        st.builds(
            lambda a, how, b: f"({a}) {how} ({b})", test, st.sampled_from(("&&", "||")), test
        ),
        test.map(lambda a: f"!({a})"),
    )


pod_selectors = _selectors(KEYS, VALUES)
_namespace_selectors = st.one_of(
    _selectors(("team", "projectcalico.org/name"), ("x", "z", "a")), st.just("global()")
)
_accounts = fields({}, names=lists(st.sampled_from(ACCOUNTS), 1), selector=pod_selectors)


def _nets(family: int) -> Strategy:
    """Networks of one family: those of both in a rule contradict each other."""
    return lists(st.sampled_from(NETWORKS4 if family == 4 else NETWORKS6), 2, 1)


def _side(has_ports: bool, family: int) -> Strategy:
    ports = st.one_of(
        st.sampled_from(NUMBERS),
        st.sampled_from(("80:443", "1:65535")),
        st.sampled_from(PORT_NAMES),
    )
    optional = {
        "nets": _nets(family),
        "notNets": _nets(family),
        "selector": pod_selectors,
        "notSelector": pod_selectors,
        "namespaceSelector": _namespace_selectors,
        "serviceAccounts": _accounts,
    }
    if has_ports:
        optional |= {"ports": lists(ports, 2, 1), "notPorts": lists(ports, 2, 1)}
    few = st.lists(st.sampled_from(tuple(optional)), max_size=3, unique=True)
    return few.flatmap(lambda names: fields({name: optional[name] for name in names}))


def _rule(protocol: str | None, family: int) -> Strategy:
    required: dict[str, Strategy] = {"action": st.sampled_from(("Allow", "Deny", "Pass", "Log"))}
    if protocol is not None:
        required["protocol"] = st.just(protocol)
    optional: dict[str, Strategy] = {
        "source": _side(False, family),
        "destination": _side(protocol in PROTOCOLS, family),
    }
    if protocol == "ICMP":
        required["ipVersion"] = st.just(4)
        optional["icmp"] = fields({"type": st.sampled_from((0, 8, 13))}, code=st.just(0))
    return fields(required, **optional)


def _of_family(protocol: str | None) -> Strategy:
    families = (4,) if protocol == "ICMP" else (4, 6)
    return st.sampled_from(families).flatmap(lambda family: _rule(protocol, family))


_rules = lists(st.sampled_from((None, *PROTOCOLS, "ICMP")).flatmap(_of_family), 3)
_specs = fields(
    {"selector": often("all()", pod_selectors)},
    tier=st.sampled_from(_TIERS),
    order=st.sampled_from((-1, 0, 1000, 1000.5)),
    types=st.sampled_from((["Ingress"], ["Egress"], ["Ingress", "Egress"])),
    ingress=_rules,
    egress=_rules,
)
_where = st.none() | _selectors(("team", "projectcalico.org/name"), ("x", "z", "a"))
_global = st.builds(
    lambda spec, where: spec if where is None else {**spec, "namespaceSelector": where},
    _specs,
    _where,
)
_policies = st.one_of(st.tuples(namespaces, _specs), st.tuples(st.just(""), _global))


def _objects(
    policies: list[tuple[str, Value]], tiers: list[Value], nets: list[Value]
) -> list[Value]:
    found = [
        named(VERSION, "Tier", name, spec) for name, spec in zip(_TIERS[1:], tiers, strict=True)
    ]
    for number, given in enumerate(nets):
        item = named(VERSION, "GlobalNetworkSet", f"set{number}", {"nets": given["nets"]})
        item["metadata"]["labels"] = given["labels"]
        found.append(item)
    for number, (namespace, spec) in enumerate(policies):
        tier = spec.get("tier", "default")
        kind = "NetworkPolicy" if namespace else "GlobalNetworkPolicy"
        found.append(named(VERSION, kind, f"{tier}.cal{number}", spec, namespace))
    return found


_labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES[1:]), max_size=1)


def calico_policies(most: int) -> Strategy:
    """Policies in three tiers, and up to two network sets."""
    actions = fields(
        {"order": st.sampled_from((1, 900, 2_000_000))},
        defaultAction=st.sampled_from(("Deny", "Pass")),
    )
    nets = fields({"nets": lists(st.sampled_from(NETWORKS4 + NETWORKS6), 2, 1), "labels": _labels})
    return st.builds(_objects, lists(_policies, most, 1), lists(actions, 2, 2), lists(nets, 2))
