# SPDX-License-Identifier: Apache-2.0
"""Random policies of policy.networking.k8s.io: both versions, around NetworkPolicies."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.words import (
    NUMBERS,
    PORT_NAMES,
    PROTOCOLS,
    Strategy,
    Value,
    fields,
    lists,
    named,
    namespace_selectors,
    networks,
    node_selectors,
    often,
    pod_selectors,
    ranges,
)

_PRIORITIES = (0, 7, 50, 500, 1000)
_protocols = st.sampled_from(PROTOCOLS)


def _of_pods(is_old: bool) -> Strategy:
    required = {"podSelector": pod_selectors}
    chosen = (
        fields({**required, "namespaceSelector": namespace_selectors})
        if is_old
        else fields(required, namespaceSelector=namespace_selectors)
    )
    return st.one_of(
        namespace_selectors.map(lambda found: {"namespaces": found}),
        chosen.map(lambda found: {"pods": found}),
    )


def _outside() -> Strategy:
    return st.one_of(
        node_selectors.map(lambda found: {"nodes": found}),
        st.lists(networks, min_size=1, max_size=2, unique=True).map(lambda f: {"networks": f}),
    )


def _old_ports() -> Strategy:
    numbers = st.tuples(_protocols, st.sampled_from(NUMBERS)).map(
        lambda both: {"portNumber": {"protocol": both[0], "port": both[1]}}
    )
    spans = st.tuples(_protocols, ranges(1)).map(
        lambda both: {"portRange": {"protocol": both[0], "start": both[1][0], "end": both[1][1]}}
    )
    return st.one_of(numbers, spans)


def _new_ports() -> Strategy:
    numbers = st.sampled_from(NUMBERS).map(lambda number: {"number": number})
    spans = ranges(1).map(lambda both: {"range": {"start": both[0], "end": both[1]}})
    return st.tuples(_protocols, st.one_of(numbers, spans)).map(
        lambda both: {both[0].lower(): {"destinationPort": both[1]}}
    )


def _rules(direction: str, is_old: bool, actions: tuple[str, ...]) -> Strategy:
    """Named ports are beside pods only, which declare them."""
    side = "from" if direction == "ingress" else "to"
    field, name = ("ports", "namedPort") if is_old else ("protocols", "destinationNamedPort")
    ports = _old_ports() if is_old else _new_ports()
    names = st.sampled_from(PORT_NAMES).map(lambda found: {name: found})
    pods = lists(_of_pods(is_old), 2, 1)
    peers = pods if direction == "ingress" else lists(st.one_of(_of_pods(is_old), _outside()), 2, 1)
    action = {"action": st.sampled_from(actions)}
    rule = st.one_of(
        fields({**action, side: peers}, **{field: lists(ports, 2, 1)}),
        fields({**action, side: pods, field: lists(st.one_of(ports, names), 2, 1)}),
    )
    return lists(rule, 3)


def _specs(is_old: bool, actions: tuple[str, ...]) -> Strategy:
    return fields(
        {"subject": often({"namespaces": {}}, _of_pods(is_old))},
        ingress=_rules("ingress", is_old, actions),
        egress=_rules("egress", is_old, actions),
    )


def _old(specs: list[Value], order: list[int], baseline: Value | None) -> list[Value]:
    version = "policy.networking.k8s.io/v1alpha1"
    found = [
        named(version, "AdminNetworkPolicy", f"anp{number}", {"priority": priority, **spec})
        for number, (spec, priority) in enumerate(zip(specs, order, strict=False))
    ]
    if baseline is not None:
        found.append(named(version, "BaselineAdminNetworkPolicy", "default", baseline))
    return found


def _new(specs: list[tuple[str, Value]], order: list[int]) -> list[Value]:
    version, kind = "policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy"
    return [
        named(version, kind, f"cnp{number}", {"tier": tier, "priority": priority, **spec})
        for number, ((tier, spec), priority) in enumerate(zip(specs, order, strict=False))
    ]


def old_admin_policies(most: int) -> Strategy:
    """AdminNetworkPolicies of different priorities, and perhaps the baseline one."""
    specs = lists(_specs(True, ("Allow", "Deny", "Pass")), most)
    baseline = st.none() | _specs(True, ("Allow", "Deny"))
    return st.builds(_old, specs, st.permutations(_PRIORITIES), baseline)


def cluster_network_policies(most: int) -> Strategy:
    """ClusterNetworkPolicies of both tiers, of different priorities."""
    tiers = st.sampled_from(("Admin", "Baseline"))
    specs = lists(st.tuples(tiers, _specs(False, ("Accept", "Deny", "Pass"))), most)
    return st.builds(_new, specs, st.permutations(_PRIORITIES))
