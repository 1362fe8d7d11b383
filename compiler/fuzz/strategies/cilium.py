# SPDX-License-Identifier: Apache-2.0
"""Random policies of cilium.io, at layers 3 and 4."""

from hypothesis import strategies as st

from policyc.compiler.fuzz.strategies.words import (
    INSIDE,
    KEYS,
    NETWORKS,
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
    node_selectors,
    often,
    selectors,
)

VERSION = "cilium.io/v2"
_ENTITIES = ("all", "world", "cluster", "host", "remote-node")
_NAMESPACE = "k8s:io.kubernetes.pod.namespace"
_keys = (*KEYS, "k8s:app", "any:tier")
_subjects = selectors(_keys, VALUES)
_peers = st.one_of(
    _subjects,
    st.builds(
        lambda found, namespace: {
            **found, "matchLabels": {**found.get("matchLabels", {}), _NAMESPACE: namespace}
        },
        _subjects, namespaces,
    ),
    st.sampled_from(("host", "world", "remote-node")).map(
        lambda name: {"matchLabels": {f"reserved:{name}": ""}}
    ),
)  # fmt: skip
_sets = st.sampled_from(tuple(INSIDE)).flatmap(
    lambda cidr: st.sets(st.sampled_from(INSIDE[cidr]), max_size=2).map(
        lambda holes: {"cidr": cidr, "except": sorted(holes)}
    )
)
_ports = st.one_of(
    fields(
        {"port": st.sampled_from([str(number) for number in (0, *NUMBERS)])},
        protocol=st.sampled_from((*PROTOCOLS, "ANY")),
    ),
    fields({"port": st.sampled_from(PORT_NAMES)}, protocol=st.sampled_from((*PROTOCOLS, "ANY"))),
    fields(
        {"port": st.just("80"), "endPort": st.sampled_from((81, 443, 8080))},
        protocol=st.sampled_from(PROTOCOLS),
    ),
)
_services = st.one_of(
    st.just({}),
    lists(_ports, 2, 1).map(lambda found: {"toPorts": [{"ports": found}]}),
    st.tuples(st.sampled_from(("IPv4", "IPv6")), st.sampled_from((0, 8, 128))).map(
        lambda both: {"icmps": [{"fields": [{"family": both[0], "type": both[1]}]}]}
    ),
)


def _rules(way: str) -> Strategy:
    others = st.one_of(
        st.just({}),
        lists(_peers, 2).map(lambda found: {f"{way}Endpoints": found}),
        lists(st.sampled_from(NETWORKS), 2).map(lambda found: {f"{way}CIDR": found}),
        lists(_sets, 1).map(lambda found: {f"{way}CIDRSet": found}),
        lists(st.sampled_from(_ENTITIES), 2).map(lambda found: {f"{way}Entities": found}),
        lists(node_selectors, 1).map(lambda found: {f"{way}Nodes": found}),
    )
    return lists(st.builds(lambda peers, services: {**peers, **services}, others, _services), 2)


def _has_rules(spec: Value) -> bool:
    """Cilium refuses a spec without any rule."""
    names = ("ingress", "ingressDeny", "egress", "egressDeny")
    return isinstance(spec, dict) and any(spec.get(name) for name in names)


_specs = fields(
    {"endpointSelector": often({}, _subjects)},
    ingress=_rules("from"),
    ingressDeny=_rules("from"),
    egress=_rules("to"),
    egressDeny=_rules("to"),
    enableDefaultDeny=st.dictionaries(st.sampled_from(("ingress", "egress")), st.booleans()),
).filter(_has_rules)


def _objects(policies: list[tuple[str, Value]]) -> list[Value]:
    return [
        named(
            VERSION,
            "CiliumNetworkPolicy" if namespace else "CiliumClusterwideNetworkPolicy",
            f"cil{number}",
            spec,
            namespace,
        )
        for number, (namespace, spec) in enumerate(policies)
    ]


def cilium_policies(most: int) -> Strategy:
    """Policies of a namespace, and of the whole cluster."""
    where = st.one_of(namespaces, st.just(""))
    return lists(st.tuples(where, _specs), most, 1).map(_objects)
