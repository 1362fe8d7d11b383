# SPDX-License-Identifier: Apache-2.0
"""Random tiers and policies of Calico's decide as a tiny evaluator of the objects says (D41, D42)."""

import random
from collections.abc import Iterator
from math import inf
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend import read_scenario
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.universe import Endpoint, Flow
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)
NUMBERS = {"TCP": 6, "UDP": 17, "SCTP": 132}
TIERS = {"a": None, "b": 5, "c": 5, "d": 2_000_000.5, "default": 1_000_000}
Object = dict[str, Any]


def random_objects(rng: random.Random) -> list[Object]:
    found = [_tier(rng, name, order) for name, order in TIERS.items() if name != "default"]
    for number in range(rng.randint(1, 7)):
        name = f"{rng.choice('pqr')}{number}"
        found.append(_network_policy(rng, name) if rng.random() < 0.2 else _calico(rng, name))
    return found


def _tier(rng: random.Random, name: str, order: float | None) -> Object:
    spec: Object = {} if order is None else {"order": order}
    if rng.random() < 0.6:
        spec["defaultAction"] = rng.choice(("Deny", "Pass"))
    return _object("projectcalico.org/v3", "Tier", {"name": name}, spec)


def _calico(rng: random.Random, name: str) -> Object:
    is_global = rng.random() < 0.5
    spec: Object = {"selector": rng.choice(("all()", "has(x)", "!has(x)"))}
    if rng.random() < 0.8:
        spec["tier"] = rng.choice(tuple(TIERS))
    if rng.random() < 0.7:
        spec["order"] = rng.choice((-1, 0, 1000, 1000.5))
    for direction in ("ingress", "egress"):
        if rng.random() < 0.6:
            spec[direction] = [_rule(rng) for _ in range(rng.randint(0, 3))]
    if rng.random() < 0.4:
        spec["types"] = rng.choice((["Ingress"], ["Egress"], ["Egress", "Ingress"]))
    kind = "GlobalNetworkPolicy" if is_global else "NetworkPolicy"
    meta = {"name": name} if is_global else {"name": name, "namespace": "one"}
    return _object("projectcalico.org/v3", kind, meta, spec)


def _rule(rng: random.Random) -> Object:
    rule: Object = {"action": rng.choice(("Allow", "Deny", "Pass", "Log"))}
    if rng.random() < 0.8:
        rule["protocol"] = rng.choice(tuple(NUMBERS))
    return rule


def _network_policy(rng: random.Random, name: str) -> Object:
    spec: Object = {"podSelector": {}}
    for direction in ("ingress", "egress"):
        if rng.random() < 0.7:
            ports = [{"protocol": rng.choice(tuple(NUMBERS))}]
            spec[direction] = [{"ports": ports}]
    meta = {"name": name, "namespace": "one"}
    return _object("networking.k8s.io/v1", "NetworkPolicy", meta, spec)


def _object(version: str, kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def is_allowed(objects: list[Object], direction: str, labels: set[str], protocol: str) -> bool:
    """The verdict of one end of a flow, in namespace `one`."""
    tiers = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "Tier"}
    tiers["default"] = {"order": 1_000_000}
    order = sorted(tiers, key=lambda name: (tiers[name].get("order", 1_000_000), name))
    for tier in order:
        inside = [o for o in objects if o["kind"] != "Tier" and _tier_of(o) == tier]
        said = _tier_says(inside, direction, labels, protocol)
        if said == "nothing":
            said = tiers[tier].get("defaultAction", "Deny")
        if said in ("Allow", "Deny"):
            return said == "Allow"
    return True


def _tier_says(policies: list[Object], direction: str, labels: set[str], protocol: str) -> str:
    """Allow, Deny, Pass (also if no policy selects the pod), or `nothing`."""
    about = [p for p in policies if direction in _types(p) and _selects(p, labels)]
    for policy in sorted(about, key=_place):
        for action, wanted in _rules(policy, direction):
            if wanted in (None, protocol) and action != "Log":
                return action
    return "nothing" if about else "Pass"


def _tier_of(policy: Object) -> str:
    return str(policy["spec"].get("tier", "default"))


def _is_kubernetes(policy: Object) -> bool:
    return policy["apiVersion"] == "networking.k8s.io/v1"


def _place(policy: Object) -> tuple[float, str]:
    if _is_kubernetes(policy):
        return 1000, f"knp.default.{policy['metadata']['name']}"
    return policy["spec"].get("order", inf), policy["metadata"]["name"]


def _types(policy: Object) -> list[str]:
    spec = policy["spec"]
    if _is_kubernetes(policy):
        return ["ingress", "egress"] if spec.get("egress") else ["ingress"]
    if "types" in spec:
        return [name.lower() for name in spec["types"]]
    if spec.get("egress"):
        return ["ingress", "egress"] if spec.get("ingress") else ["egress"]
    return ["ingress"]


def _selects(policy: Object, labels: set[str]) -> bool:
    selector = policy["spec"].get("selector", "all()")
    return {"all()": True, "has(x)": "x" in labels, "!has(x)": "x" not in labels}[selector]


def _rules(policy: Object, direction: str) -> Iterator[tuple[str, str | None]]:
    for rule in policy["spec"].get(direction, ()):
        if _is_kubernetes(policy):
            yield "Allow", rule["ports"][0]["protocol"]
        else:
            yield rule["action"], rule.get("protocol")


@settings(max_examples=examples(300, 2))
@given(SEEDS)
def test_tiers_orders_types_and_actions_decide_as_written(seed: int) -> None:
    objects = random_objects(random.Random(seed))
    if not any(o["kind"] != "Tier" and not _is_kubernetes(o) for o in objects):
        return  # without a policy of Calico's there is no profile of Calico's
    policies, _ = read_scenario("s", objects)
    ends = [Endpoint("one", "bare"), Endpoint("one", "x", {"x": ""})]
    for src, dst in (ends, ends[::-1]):
        for protocol, number in NUMBERS.items():
            given_verdict = verdict(policies, Flow(src, dst, Service(number, 80), 4))
            out = is_allowed(objects, "egress", set(src.labels), protocol)
            into = is_allowed(objects, "ingress", set(dst.labels), protocol)
            assert (not given_verdict.egress.action.is_deny) == out, protocol
            assert (not given_verdict.ingress.action.is_deny) == into, protocol
