# SPDX-License-Identifier: Apache-2.0
"""Policies of policy.networking.k8s.io mean what their API documents say (B29 to B34, C37 to C39).

The evaluator here reads the objects as they are written, and knows nothing of the IR.
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

NAMESPACES = {"shop": {"team": "blue"}, "mail": {"team": "red"}, "ops": {}}
PODS = [("shop", {}), ("shop", {"a": "1"}), ("mail", {"a": "1"}), ("ops", {"a": "2", "b": ""})]
NODES: dict[str, dict[str, str]] = {"n1": {"zone": "1"}, "n2": {}}
NETWORKS = ["203.0.113.0/24", "203.0.113.9/32", "10.0.0.0/30", "10.8.0.0/16", "0.0.0.0/0", "::/0"]
OUTSIDE = ["203.0.113.9", "203.0.113.10"]
SERVICES = [Service(6, 80), Service(6, 8080), Service(17, 80), Service(132, 9), Service(1, 8 << 8)]
NUMBERS = {"TCP": 6, "UDP": 17, "SCTP": 132}
NAMED = {"web": "TCP", "dns": "UDP"}


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
        ports = [
            {"name": "web", "containerPort": 8080 if at % 2 else 80},
            {"name": "dns", "containerPort": 80, "protocol": "UDP"},
        ][: 1 + at % 2]
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
    st.sampled_from(["a", "b", "team", "zone"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
    st.sets(st.sampled_from(["1", "2", "", "blue"]), min_size=1),
)
selectors = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(expressions, max_size=2)}
)


def pods(is_old: bool) -> st.SearchStrategy[dict[str, Any]]:
    namespaces = {"namespaceSelector": selectors}
    fields = {"podSelector": selectors}
    chosen = (
        st.fixed_dictionaries({**fields, **namespaces})
        if is_old
        else st.fixed_dictionaries(fields, optional=namespaces)
    )
    return st.one_of(
        selectors.map(lambda found: {"namespaces": found}),
        chosen.map(lambda found: {"pods": found}),
    )


def rules(direction: str, is_old: bool, actions: list[str]) -> st.SearchStrategy[Any]:
    found = [pods(is_old)]
    if direction == "egress":
        found.append(selectors.map(lambda s: {"nodes": s}))
        listed = st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=2, unique=True)
        found.append(listed.map(lambda networks: {"networks": networks}))
    numbers = st.sampled_from([(80, 80), (80, 90), (8080, 8081), (9, 9)])
    protocols = st.sampled_from(list(NUMBERS))
    if is_old:
        ports = st.builds(_old_port, protocols, numbers)
        named: Any = st.sampled_from(list(NAMED)).map(lambda name: {"namedPort": name})
    else:
        ports = st.builds(_new_port, protocols, numbers)
        named = st.sampled_from(list(NAMED)).map(lambda name: {"destinationNamedPort": name})
    field = "ports" if is_old else "protocols"
    rule = st.fixed_dictionaries(
        {
            "action": st.sampled_from(actions),
            "from" if direction == "ingress" else "to": st.lists(
                st.one_of(found), min_size=1, max_size=2
            ),
        },
        optional={field: st.lists(st.one_of(ports, named), min_size=1, max_size=2)},
    )
    return st.lists(rule.filter(_is_allowed), max_size=3)


def _old_port(protocol: str, numbers: tuple[int, int]) -> dict[str, Any]:
    low, high = numbers
    if low == high:
        return {"portNumber": {"protocol": protocol, "port": low}}
    return {"portRange": {"protocol": protocol, "start": low, "end": high}}


def _new_port(protocol: str, numbers: tuple[int, int]) -> dict[str, Any]:
    low, high = numbers
    port = {"number": low} if low == high else {"range": {"start": low, "end": high}}
    return {protocol.lower(): {"destinationPort": port}}


def _is_allowed(rule: dict[str, Any]) -> bool:
    """Named ports do not stand beside networks and nodes."""
    ports = rule.get("ports", rule.get("protocols", []))
    is_named = any("namedPort" in port or "destinationNamedPort" in port for port in ports)
    return not (is_named and any("networks" in p or "nodes" in p for p in rule.get("to", [])))


def specs(is_old: bool, actions: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"subject": pods(is_old)},
        optional={
            "ingress": rules("ingress", is_old, actions),
            "egress": rules("egress", is_old, actions),
        },
    )


old = st.tuples(
    st.lists(specs(True, ["Allow", "Deny", "Pass"]), max_size=3),
    st.lists(specs(True, ["Allow", "Deny"]), max_size=1),
)
new = st.tuples(
    st.lists(specs(False, ["Accept", "Deny", "Pass"]), max_size=2),
    st.lists(specs(False, ["Accept", "Deny", "Pass"]), max_size=2),
)
isolated = st.sets(st.sampled_from(["shop", "mail"]))

Policies = tuple[list[dict[str, Any]], list[dict[str, Any]]]
VERSION = "policy.networking.k8s.io/v1alpha"


def objects(is_old: bool, written: Policies, closed: set[str]) -> Iterator[dict[str, Any]]:
    yield from cluster_objects()
    for tier, listed in zip(("Admin", "Baseline"), written, strict=True):
        for at, spec in enumerate(listed):
            name = "default" if is_old and tier == "Baseline" else f"p{at}-{tier.lower()}"
            more: dict[str, Any] = {"priority": at} if not is_old or tier == "Admin" else {}
            more |= {} if is_old else {"tier": tier}
            kinds = {"Admin": "AdminNetworkPolicy", "Baseline": "BaselineAdminNetworkPolicy"}
            yield {
                "apiVersion": VERSION + ("1" if is_old else "2"),
                "kind": kinds[tier] if is_old else "ClusterNetworkPolicy",
                "metadata": {"name": name},
                "spec": {**spec, **more},
            }
    for namespace in closed:
        yield {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "own", "namespace": namespace},
            "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
        }


def holds(selector: dict[str, Any], labels: Any) -> bool:
    for e in selector.get("matchExpressions", []):
        value, values = labels.get(e["key"]), e.get("values", [])
        matches = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not matches[e["operator"]]:
            return False
    return True


def is_chosen(chosen: dict[str, Any], end: End) -> bool:
    match end, chosen:
        case Endpoint(), {"namespaces": selector}:
            return holds(selector, NAMESPACES[end.namespace])
        case Endpoint(), {"pods": both}:
            of_namespace = both.get("namespaceSelector", {})
            return holds(of_namespace, NAMESPACES[end.namespace]) and holds(
                both["podSelector"], end.labels
            )
        case Node(), {"nodes": selector}:
            return holds(selector, end.labels)
        case _, {"networks": networks}:
            address = end_address(end, 4)
            return any(address in ip_network(network) for network in networks)
        case _:
            return False


def is_port(port: dict[str, Any], destination: End, service: Service) -> bool:
    for field in ("namedPort", "destinationNamedPort"):
        if field in port:
            return isinstance(destination, Endpoint) and any(
                p.name == port[field]
                and p.number == service.value
                and NUMBERS[p.protocol] == service.number
                for p in destination.ports
            )
    (what,) = port.values()
    protocol = what.get("protocol") or next(iter(port)).upper()
    what = what.get("destinationPort", what)
    what = what.get("range", what)
    low = what.get("start", what.get("number", what.get("port")))
    return NUMBERS[protocol] == service.number and low <= service.value <= what.get("end", low)


def tier(listed: list[dict[str, Any]], way: str, subject: End, peer: End, flow: Flow) -> str:
    """Accept, Deny, or Pass where no rule matches."""
    for spec in listed:
        if not is_chosen(spec["subject"], subject):
            continue
        for rule in spec.get(way, []):
            ports = rule.get("ports", rule.get("protocols"))
            if any(is_chosen(p, peer) for p in rule["from" if way == "ingress" else "to"]) and (
                ports is None or any(is_port(p, flow.dst, flow.service) for p in ports)
            ):
                return "Accept" if rule["action"] == "Allow" else str(rule["action"])
    return "Pass"


def allowed(
    written: Policies, closed: set[str], way: str, subject: End, peer: End, flow: Flow
) -> bool:
    if not isinstance(subject, Endpoint):
        return True
    first = tier(written[0], way, subject, peer, flow)
    if first != "Pass":
        return first == "Accept"
    if way == "ingress" and subject.namespace in closed:
        return isinstance(peer, Endpoint) and peer.namespace == subject.namespace
    return tier(written[1], way, subject, peer, flow) != "Deny"


def check(is_old: bool, written: Policies, closed: set[str]) -> None:
    policies, cluster = read_scenario("x", list(objects(is_old, written, closed)))
    ends: list[End] = [*cluster.universe.endpoints, *cluster.universe.nodes]
    ends += [ip_address(text) for text in OUTSIDE]
    for src, dst in product(ends, repeat=2):
        if src == dst:
            continue
        for service in SERVICES:
            flow = Flow(src, dst, service, 4)
            found = verdict(policies, flow)
            out = allowed(written, closed, "egress", src, dst, flow)
            assert found.egress.action.is_deny is not out, flow
            if isinstance(src, Node) and isinstance(dst, Endpoint) and src.name == dst.node:
                continue  # a node reaches its own pods (A22)
            into = allowed(written, closed, "ingress", dst, src, flow)
            assert found.ingress.action.is_deny is not into, flow


@settings(max_examples=examples(250, 2), deadline=None)
@given(old, isolated)
def test_v1alpha1_means_what_its_api_says(written: Policies, closed: set[str]) -> None:
    check(True, written, closed)


@settings(max_examples=examples(250, 2), deadline=None)
@given(new, isolated)
def test_v1alpha2_means_what_its_api_says(written: Policies, closed: set[str]) -> None:
    check(False, written, closed)
