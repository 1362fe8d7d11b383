# SPDX-License-Identifier: Apache-2.0
"""Random selectors of Calico's mean what a tiny evaluator of flat labels says.

The evaluator here knows no Policy IR. As Calico does it, every pod and network set has one map of
labels, inherited ones included, and a rule's selectors are sets of addresses.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend import read_scenario
from policyc.compiler.frontend.calico.labels import (
    endpoint_selector,
    on_workloads,
)
from policyc.compiler.frontend.calico.selector import parse_expression
from policyc.ir.matching import selects
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.universe import End, Endpoint, Flow
from tests.property.length import examples

SEEDS = st.integers(min_value=0, max_value=2**32)
KEYS = ("a", "b.c/d", "pcns.team", "pcsa.tier", "projectcalico.org/namespace", "x-y")
NAMED = ("projectcalico.org/serviceaccount", "pcns.projectcalico.org/name")
VALUES = ("", "x", "xy", "yx", "one", "two", "k8s")
NAMESPACES = ("one", "two")
OUTSIDE = ("203.0.113.1", "203.0.113.20", "192.0.2.1", "10.0.0.200")

Tree = tuple[Any, ...]
"""("==", key, value), ("in", key, values), ("has", key), ("all",), ("!", tree), ("&&", trees), ..."""


def random_tree(rng: random.Random, keys: tuple[str, ...], depth: int = 3) -> Tree:
    if depth and rng.random() < 0.6:
        sign = rng.choice(("!", "&&", "||"))
        if sign == "!":
            return sign, random_tree(rng, keys, depth - 1)
        return sign, [random_tree(rng, keys, depth - 1) for _ in range(rng.randint(2, 3))]
    operator = rng.choice(
        ("==", "!=", "in", "not in", "has", "contains", "starts with", "ends with", "all")
    )
    if operator == "all":
        return (operator,)
    key = rng.choice(keys)
    if operator == "has":
        return operator, key
    if operator in ("in", "not in"):
        return operator, key, rng.sample(VALUES, rng.randint(0, 3))
    return operator, key, rng.choice(VALUES)


def written(tree: Tree, rng: random.Random) -> str:
    """The tree as a selector, with more parentheses and spaces than it needs, or fewer."""
    match tree:
        case ("all",):
            return rng.choice(("all()", "all( )"))
        case ("has", key):
            return f"has({key})"
        case ("!", part):
            return f"!({written(part, rng)})"
        case ("&&" | "||" as sign, parts):
            joined = rng.choice((f" {sign} ", sign)).join(
                f"({written(part, rng)})" if part[0] == "||" else written(part, rng)
                for part in parts
            )
            return f"({joined})" if rng.random() < 0.3 else joined
        case ("in" | "not in" as operator, key, values):
            inside = ", ".join(quoted(value, rng) for value in values)
            return f"{key} {operator} {{{inside}}}"
        case (operator, key, value):
            return f"{key} {operator} {quoted(value, rng)}"
        case _:
            raise AssertionError(tree)


def quoted(value: str, rng: random.Random) -> str:
    quote = rng.choice("\"'")
    return f"{quote}{value}{quote}"


def evaluate(tree: Tree, labels: Mapping[str, str]) -> bool:
    match tree:
        case ("all",):
            return True
        case ("has", key):
            return key in labels
        case ("!", part):
            return not evaluate(part, labels)
        case ("&&", parts):
            return all(evaluate(part, labels) for part in parts)
        case ("||", parts):
            return any(evaluate(part, labels) for part in parts)
        case ("==", key, value):
            return labels.get(key) == value
        case ("!=", key, value):
            return labels.get(key) != value
        case ("in", key, values):
            return labels.get(key) in values
        case ("not in", key, values):
            return labels.get(key) not in values
        case ("contains", key, value):
            return key in labels and value in labels[key]
        case ("starts with", key, value):
            return key in labels and labels[key].startswith(value)
        case ("ends with", key, value):
            return key in labels and labels[key].endswith(value)
        case _:
            raise AssertionError(tree)


def some_labels(rng: random.Random, *keys: str) -> dict[str, str]:
    return {key: rng.choice(VALUES) for key in keys if rng.random() < 0.6}


@settings(max_examples=examples(400, 2))
@given(SEEDS)
def test_a_selector_selects_the_pods_whose_flat_labels_satisfy_it(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(rng, (*KEYS, *NAMED))
    selector = endpoint_selector(on_workloads(parse_expression(written(tree, rng)).condition))
    for _ in range(8):
        namespace, account = rng.choice(NAMESPACES), rng.choice(VALUES[1:])
        own = some_labels(rng, "a", "b.c/d", "x-y")
        team, tier = some_labels(rng, "team"), some_labels(rng, "tier")
        pod = Endpoint(
            namespace,
            "p",
            own,
            {**team, "kubernetes.io/metadata.name": namespace},
            service_account=account,
            service_account_labels=tier,
        )
        flat = {
            **own,
            **{f"pcns.{key}": value for key, value in team.items()},
            **{f"pcsa.{key}": value for key, value in tier.items()},
            "projectcalico.org/namespace": namespace,
            "projectcalico.org/serviceaccount": account,
            "pcns.projectcalico.org/name": namespace,
        }
        assert selects(selector, pod) == evaluate(tree, flat), written(tree, rng)


@dataclass(frozen=True)
class Thing:
    """A pod or a network set: its flat labels, its namespace (empty: none), and its networks."""

    namespace: str
    flat: Mapping[str, str]
    networks: tuple[str, ...]


@dataclass(frozen=True)
class World:
    """Objects as the front end reads them, and the same as things with addresses."""

    objects: tuple[dict[str, Any], ...]
    things: tuple[Thing, ...]


def random_world(rng: random.Random) -> World:
    teams = {name: some_labels(rng, "team") for name in NAMESPACES}
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in teams.items()
    ]
    things = []
    for number in range(1, 6):
        namespace, labels = rng.choice(NAMESPACES), some_labels(rng, "a", "x-y")
        address = f"10.0.0.{number}"
        meta = {"name": f"p{number}", "namespace": namespace, "labels": labels}
        status = {"podIPs": [{"ip": address}]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})
        things.append(Thing(namespace, _flat(labels, namespace, teams), (f"{address}/32",)))
    for number in range(4):
        namespace, labels = rng.choice(("", *NAMESPACES)), some_labels(rng, "a", "x-y")
        nets = tuple(rng.sample(("203.0.113.0/28", "203.0.113.16/28", "10.0.0.0/30"), 2))
        kind = "NetworkSet" if namespace else "GlobalNetworkSet"
        meta = {"name": f"s{number}", "labels": labels}
        meta |= {"namespace": namespace} if namespace else {}
        objects.append(_calico(kind, meta, {"nets": list(nets)}))
        things.append(Thing(namespace, _flat(labels, namespace, teams), nets))
    return World(tuple(objects), tuple(things))


def _flat(
    labels: Mapping[str, str], namespace: str, teams: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    if not namespace:
        return dict(labels)
    inherited = {f"pcns.{key}": value for key, value in teams[namespace].items()}
    inherited["pcns.projectcalico.org/name"] = namespace
    return {**labels, **inherited, "projectcalico.org/namespace": namespace}


def _calico(kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    version = "projectcalico.org/v3"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Source:
    """A rule's source: trees, None where there is none; `namespaces` may be "global"."""

    selector: Tree | None
    not_selector: Tree | None
    namespaces: Tree | str | None
    nets: tuple[str, ...]
    not_nets: tuple[str, ...]

    def to_api(self, rng: random.Random) -> dict[str, Any]:
        api: dict[str, Any] = {"nets": list(self.nets), "notNets": list(self.not_nets)}
        if self.selector is not None:
            api["selector"] = written(self.selector, rng)
        if self.not_selector is not None:
            api["notSelector"] = written(self.not_selector, rng)
        if self.namespaces == "global":
            api["namespaceSelector"] = "global()"
        elif isinstance(self.namespaces, tuple):
            api["namespaceSelector"] = written(self.namespaces, rng)
        return api

    def matches(self, address: str, policy_namespace: str, world: World) -> bool:
        if self.nets and not _inside(address, self.nets):
            return False
        if _inside(address, self.not_nets):
            return False
        here = [thing for thing in world.things if _inside(address, thing.networks)]
        if not self._is_limited(policy_namespace):
            return not any(map(self._is_refused, here))
        return any(
            self._reaches(thing, policy_namespace)
            and (self.selector is None or evaluate(self.selector, thing.flat))
            and not self._is_refused(thing)
            for thing in here
        )

    def _is_refused(self, thing: Thing) -> bool:
        return self.not_selector is not None and evaluate(self.not_selector, thing.flat)

    def _is_limited(self, policy_namespace: str) -> bool:
        if self.selector is not None or self.namespaces is not None:
            return True
        return bool(policy_namespace) and self.not_selector is not None

    def _reaches(self, thing: Thing, policy_namespace: str) -> bool:
        if self.namespaces == "global":
            return not thing.namespace
        if isinstance(self.namespaces, tuple):
            return evaluate(of_namespaces(self.namespaces), thing.flat)
        return not policy_namespace or thing.namespace == policy_namespace


def of_namespaces(tree: Tree) -> Tree:
    """A `namespaceSelector` as libcalico-go rewrites it, for the one map of labels."""
    match tree:
        case ("all",):
            return "has", "projectcalico.org/namespace"
        case ("!", part):
            return "!", of_namespaces(part)
        case ("&&" | "||" as sign, parts):
            return sign, [of_namespaces(part) for part in parts]
        case (operator, key, *values):
            return operator, f"pcns.{key}", *values
    raise AssertionError(tree)


def _inside(address: str, networks: tuple[str, ...]) -> bool:
    return any(ip_address(address) in ip_network(network) for network in networks)


def random_source(rng: random.Random) -> Source:
    def maybe(keys: tuple[str, ...]) -> Tree | None:
        return random_tree(rng, keys, 2) if rng.random() < 0.5 else None

    keys = ("a", "x-y", "pcns.team", "projectcalico.org/namespace")
    namespaces: Tree | str | None = maybe(("team", "projectcalico.org/name"))
    if rng.random() < 0.15:
        namespaces = "global"
    pool = ("10.0.0.0/24", "203.0.113.0/24", "10.0.0.2/31", "0.0.0.0/0")
    nets = tuple(rng.sample(pool, rng.choice((0, 0, 1, 2))))
    not_nets = tuple(rng.sample(pool[:3], rng.choice((0, 0, 1))))
    return Source(maybe(keys), maybe(keys), namespaces, nets, not_nets)


@settings(max_examples=examples(250, 2))
@given(SEEDS)
def test_a_rule_matches_the_addresses_that_its_selectors_select(seed: int) -> None:
    rng = random.Random(seed)
    world, source = random_world(rng), random_source(rng)
    namespace = rng.choice(("", "one"))
    spec = {"ingress": [{"action": "Allow", "source": source.to_api(rng)}]}
    kind = "NetworkPolicy" if namespace else "GlobalNetworkPolicy"
    meta = {"name": "p"} | ({"namespace": namespace} if namespace else {})
    target = {"name": "target", "namespace": "one", "labels": {"target": "yes"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": target}
    pod["status"] = {"podIPs": [{"ip": "10.9.9.9"}]}
    policy = _calico(kind, meta, spec | {"selector": "has(target)"})
    policies, cluster = read_scenario("s", [*world.objects, pod, policy])
    for end, address in _ends(cluster.universe.endpoints):
        flow = Flow(end, _target(cluster.universe.endpoints), Service(6, 80), 4)
        expected = source.matches(address, namespace, world)
        assert (not verdict(policies, flow).action.is_deny) == expected, (address, policy)


def _ends(endpoints: tuple[Endpoint, ...]) -> Iterator[tuple[End, str]]:
    for endpoint in endpoints:
        if endpoint.name != "target":
            yield endpoint, str(endpoint.addresses[0])
    for text in OUTSIDE:
        yield ip_address(text), text


def _target(endpoints: tuple[Endpoint, ...]) -> Endpoint:
    return next(endpoint for endpoint in endpoints if endpoint.name == "target")
