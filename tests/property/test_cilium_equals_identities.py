# SPDX-License-Identifier: Apache-2.0
"""Cilium's policies mean what they mean to Cilium: identities are flat sets of labels (E45).

The evaluator here knows nothing of the IR. As Cilium's agent does, it gives every end an identity, a set
of `source:key=value` labels, and puts the namespace into selectors that do not name one.
"""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend import read_scenario
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.universe import End, Endpoint, Flow, Node, end_address
from tests.property.length import examples

NAMESPACE = "io.kubernetes.pod.namespace"
OF_NAMESPACE = "io.cilium.k8s.namespace.labels."
ACCOUNT = "io.cilium.k8s.policy.serviceaccount"
CLUSTER = "io.cilium.k8s.policy.cluster"
NAMESPACES = {"shop": {"team": "blue"}, "mail": {"team": "red"}}
PODS = [("shop", {}), ("shop", {"a": "1"}), ("mail", {"a": "1"}), ("mail", {"a": "2", "b": ""})]
NODES = {"n1": {"zone": "1"}, "n2": {"zone": "1"}, "n3": {}}
NETWORKS = ["203.0.113.0/24", "203.0.113.9/32", "0.0.0.0/0", "10.0.0.0/8", "::/0"]
OUTSIDE = ["203.0.113.9", "203.0.113.10", "10.99.0.1"]
SERVICES = [Service(6, 80), Service(6, 8080), Service(17, 80), Service(132, 9), Service(1, 8 << 8)]
ENTITIES = ["all", "world", "cluster", "host", "remote-node", "none"]
KEYS = ["a", "k8s:a", "any:b", f"k8s:{NAMESPACE}", f"{OF_NAMESPACE}team", f"any:{ACCOUNT}"]
VALUES = ["1", "2", "", "shop", "mail", "blue", "default"]


def cluster_objects() -> Iterator[dict[str, Any]]:
    for name, labels in NAMESPACES.items():
        metadata = {"name": name, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    for at, (name, labels) in enumerate(NODES.items()):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"addresses": [{"type": "InternalIP", "address": f"10.8.0.{at}"}]},
        }
    for at, (namespace, labels) in enumerate(PODS):
        ports = [{"name": "web", "containerPort": 8080 if at % 2 else 80}]
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{at}", "namespace": namespace, "labels": labels},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]},
            "status": {"podIP": f"10.0.0.{at + 1}"},
        }


expressions = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        **({"values": sorted(values)} if operator.endswith("In") else {}),
    },
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sets(st.sampled_from(VALUES), min_size=1),
)
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
        "matchExpressions": st.lists(expressions, max_size=2),
    },
)
reserved = st.sampled_from(["host", "world", "remote-node"]).map(
    lambda name: {"matchLabels": {f"reserved:{name}": ""}}
)
nodes = st.sampled_from([{}, {"matchLabels": {"zone": "1"}}])
ports = st.fixed_dictionaries(
    {"port": st.sampled_from(["80", "web", "0", "9"])},
    optional={"protocol": st.sampled_from(["TCP", "UDP", "SCTP", "ANY"])},
)


def rules(direction: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    way = "from" if direction == "ingress" else "to"
    endpoints = st.lists(st.one_of(selectors, reserved), max_size=2)
    sets = st.sampled_from([{"cidr": "0.0.0.0/0", "except": ["203.0.113.9/32"]}])
    peers = st.one_of(
        st.just({}),
        endpoints.map(lambda found: {f"{way}Endpoints": found}),
        st.lists(st.sampled_from(NETWORKS), max_size=2).map(lambda f: {f"{way}CIDR": f}),
        st.lists(sets, max_size=1).map(lambda found: {f"{way}CIDRSet": found}),
        st.lists(st.sampled_from(ENTITIES), max_size=2).map(lambda f: {f"{way}Entities": f}),
        st.lists(nodes, max_size=1).map(lambda found: {f"{way}Nodes": found}),
    )
    services = st.one_of(
        st.just({}),
        st.lists(ports, max_size=2).map(lambda found: {"toPorts": [{"ports": found}]}),
        st.just({"toPorts": []}),
        st.just({"icmps": [{"fields": [{"type": 8}]}]}),
    )
    return st.lists(st.builds(lambda p, s: {**p, **s}, peers, services), max_size=2)


def has_rules(spec: dict[str, Any]) -> bool:
    """Whether Cilium accepts a spec."""
    return any(spec.get(name) for name in ("ingress", "ingressDeny", "egress", "egressDeny"))


specs = st.fixed_dictionaries(
    {"endpointSelector": selectors},
    optional={
        "ingress": rules("ingress"),
        "ingressDeny": rules("ingress"),
        "egress": rules("egress"),
        "egressDeny": rules("egress"),
        "enableDefaultDeny": st.dictionaries(st.sampled_from(["ingress", "egress"]), st.booleans()),
    },
).filter(has_rules)
policies = st.lists(st.tuples(st.sampled_from(["shop", ""]), specs), min_size=1, max_size=3)

Identity = dict[str, str]


def identity(end: End, subject: Endpoint) -> Identity:
    match end:
        case Endpoint():
            return {
                f"k8s:{NAMESPACE}": end.namespace,
                f"k8s:{ACCOUNT}": end.service_account,
                f"k8s:{CLUSTER}": "default",
                **{f"k8s:{key}": value for key, value in end.labels.items()},
                **{f"k8s:{OF_NAMESPACE}{k}": v for k, v in end.namespace_labels.items()},
            }
        case Node():
            where = "host" if end.name == subject.node else "remote-node"
            return {f"reserved:{where}": "", **{f"node:{k}": v for k, v in end.labels.items()}}
        case _:
            return {"reserved:world": ""}


def requirements(selector: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    found = [(k, "In", [v]) for k, v in selector.get("matchLabels", {}).items()]
    found += [
        (e["key"], e["operator"], e.get("values", [])) for e in selector.get("matchExpressions", [])
    ]
    return [(key if ":" in key else f"any:{key}", *rest) for key, *rest in found]  # type: ignore[misc]


def holds(requirement: tuple[str, str, list[str]], labels: Identity) -> bool:
    key, operator, values = requirement
    source, _, name = key.partition(":")
    wanted = {f"{s}:{name}" for s in (("k8s", "reserved") if source == "any" else (source,))}
    value = next((v for k, v in labels.items() if k in wanted), None)
    return {
        "In": value is not None and value in values,
        "NotIn": value is None or value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def with_namespace(selector: dict[str, Any], namespace: str) -> list[tuple[str, str, list[str]]]:
    """The requirements that the agent adds to a peer's selector: cluster, and the policy's namespace."""
    found = requirements(selector)
    keys = [key for key, _, _ in found]
    if any(key.startswith("reserved:") for key in keys):
        return found
    found.append((f"k8s:{CLUSTER}", "In", ["default"]))
    if any(key.partition(":")[2] == NAMESPACE for key in keys):
        return found
    if not namespace:
        return [*found, (f"k8s:{NAMESPACE}", "Exists", [])]
    if any(key.partition(":")[2].startswith(OF_NAMESPACE) for key in keys):
        return found
    return [*found, (f"k8s:{NAMESPACE}", "In", [namespace])]


def is_subject(spec: dict[str, Any], namespace: str, subject: Endpoint) -> bool:
    found = requirements(spec["endpointSelector"])
    if namespace:
        own = f"k8s:{NAMESPACE}"
        labels = spec["endpointSelector"].get("matchLabels", {})
        found = [r for r in found if not (r[0] == own and own in labels and r[1] == "In")] + [
            r
            for e in spec["endpointSelector"].get("matchExpressions", [])
            for r in requirements({"matchExpressions": [e]})
        ]
        found.append((own, "In", [namespace]))
    return all(holds(r, identity(subject, subject)) for r in found)


def in_network(end: End, written: str) -> bool:
    address = end_address(end, 4)
    network = ip_network(written)
    return (
        not isinstance(end, Endpoint | Node)
        and address is not None
        and address.version == network.version
        and address in network
    )


def entity_matches(name: str, labels: Identity) -> bool:
    if name == "cluster":
        return "reserved:world" not in labels
    return name == "all" or f"reserved:{name}" in labels


def is_peer(rule: dict[str, Any], namespace: str, subject: Endpoint, peer: End) -> bool:
    lists = {k.removeprefix("from").removeprefix("to"): v for k, v in rule.items()}
    labels = identity(peer, subject)
    found = {
        "Endpoints": lambda s: all(holds(r, labels) for r in with_namespace(s, namespace)),
        "CIDR": lambda written: in_network(peer, written),
        "CIDRSet": lambda s: (
            in_network(peer, s["cidr"]) and not any(in_network(peer, hole) for hole in s["except"])
        ),
        "Entities": lambda name: entity_matches(name, labels),
        "Nodes": lambda s: (
            "reserved:remote-node" in labels
            and all(labels.get(f"node:{k}") == v for k, v in s.get("matchLabels", {}).items())
        ),
    }
    for name, test in found.items():
        if name in lists:
            return any(test(item) for item in lists[name])
    return bool(rule.get("toPorts") or rule.get("icmps"))


def is_service(rule: dict[str, Any], destination: End, service: Service) -> bool:
    if not rule.get("toPorts") and not rule.get("icmps"):
        return True
    if rule.get("icmps"):
        return service == Service(1, 8 << 8)
    numbers = {"TCP": [6], "UDP": [17], "SCTP": [132], "ANY": [6, 17, 132]}
    for port in rule["toPorts"][0]["ports"]:
        if service.number not in numbers[port.get("protocol", "ANY")]:
            continue
        if port["port"] in ("0", str(service.value)):
            return True
        if port["port"] == "web" and isinstance(destination, Endpoint):
            declared = (p.number for p in destination.ports if p.name == "web")
            if service.number == 6 and service.value in declared:
                return True
    return False


def allowed(
    written: list[tuple[str, dict[str, Any]]],
    direction: str,
    subject: End,
    peer: End,
    flow: Flow,
) -> bool:
    if not isinstance(subject, Endpoint):
        return True
    is_isolated, is_allowed = False, False
    for namespace, spec in written:
        if not is_subject(spec, namespace, subject):
            continue
        has_rules = bool(spec.get(direction) or spec.get(f"{direction}Deny"))
        is_isolated |= spec.get("enableDefaultDeny", {}).get(direction, has_rules)
        for name in (direction, f"{direction}Deny"):
            for rule in spec.get(name, []):
                if is_peer(rule, namespace, subject, peer) and is_service(
                    rule, flow.dst, flow.service
                ):
                    if name != direction:
                        return False
                    is_allowed = True
    return is_allowed or not is_isolated


def objects(written: list[tuple[str, dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    yield from cluster_objects()
    for at, (namespace, spec) in enumerate(written):
        metadata = {"name": f"p{at}"} | ({"namespace": namespace} if namespace else {})
        kind = "CiliumNetworkPolicy" if namespace else "CiliumClusterwideNetworkPolicy"
        yield {"apiVersion": "cilium.io/v2", "kind": kind, "metadata": metadata, "spec": spec}


@settings(max_examples=examples(500), deadline=None)
@given(policies)
def test_verdicts_equal_flat_identities(written: list[tuple[str, dict[str, Any]]]) -> None:
    read, cluster = read_scenario("x", list(objects(written)))
    ends: list[End] = [*cluster.universe.endpoints, *cluster.universe.nodes]
    ends += [ip_address(text) for text in OUTSIDE]
    for src, dst in product(ends, repeat=2):
        if src == dst:
            continue
        for service in SERVICES:
            flow = Flow(src, dst, service, 4)
            given = verdict(read, flow)
            assert given.egress.action.is_deny is not allowed(written, "egress", src, dst, flow)
            if isinstance(src, Node) and isinstance(dst, Endpoint) and src.name == dst.node:
                continue  # a node reaches its own pods (A22)
            assert given.ingress.action.is_deny is not allowed(written, "ingress", dst, src, flow)
