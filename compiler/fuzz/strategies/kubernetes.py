# SPDX-License-Identifier: Apache-2.0
"""Random NetworkPolicies of networking.k8s.io."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.words import (
    INSIDE,
    NUMBERS,
    PORT_NAMES,
    PROTOCOLS,
    Strategy,
    Value,
    fields,
    lists,
    named,
    namespace_selectors,
    namespaces,
    networks,
    often,
    pod_selectors,
    ranges,
)

_protocols = st.sampled_from(PROTOCOLS)
_blocks = st.one_of(
    networks.map(lambda cidr: {"cidr": cidr}),
    st.sampled_from(tuple(INSIDE)).flatmap(
        lambda cidr: st.sets(st.sampled_from(INSIDE[cidr]), min_size=1, max_size=2).map(
            lambda holes: {"cidr": cidr, "except": sorted(holes)}
        )
    ),
)
_peers = st.one_of(
    pod_selectors.map(lambda found: {"podSelector": found}),
    namespace_selectors.map(lambda found: {"namespaceSelector": found}),
    fields({"namespaceSelector": namespace_selectors, "podSelector": pod_selectors}),
    _blocks.map(lambda found: {"ipBlock": found}),
)
_ports = st.one_of(
    fields({}, protocol=_protocols),
    fields({"port": st.sampled_from(NUMBERS)}, protocol=_protocols),
    fields({"port": st.sampled_from(PORT_NAMES)}, protocol=_protocols),
    ranges().flatmap(
        lambda both: fields(
            {"port": st.just(both[0]), "endPort": st.just(both[1])}, protocol=_protocols
        )
    ),
)


def _rules(side: str) -> Strategy:
    return lists(fields({}, **{side: lists(_peers, 2), "ports": lists(_ports, 2)}), 3)


_specs = fields(
    {"podSelector": often({}, pod_selectors)},
    policyTypes=st.sampled_from((["Ingress"], ["Egress"], ["Ingress", "Egress"])),
    ingress=_rules("from"),
    egress=_rules("to"),
)


def _objects(policies: list[tuple[str, Value]]) -> list[Value]:
    return [
        named("networking.k8s.io/v1", "NetworkPolicy", f"np{number}", spec, namespace)
        for number, (namespace, spec) in enumerate(policies)
    ]


def network_policies(most: int, least: int = 0) -> Strategy:
    """Lists of objects."""
    return lists(st.tuples(namespaces, _specs), most, least).map(_objects)
