# SPDX-License-Identifier: Apache-2.0
"""Clusters of N pods and N policies in three tiers, and changes of them whose effect is known.

Built on tests/bench/synthetic.py. Pods are replicas: those of one app and tier in a namespace have the
same labels and ports. The same N and seed give the same objects.
"""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from synthetic import objects

Objects = list[dict[str, Any]]
ADMIN_SHARE = 100
"""One AdminNetworkPolicy for so many NetworkPolicies, up to the 1000 priorities there are."""
OPENED = "203.0.113.0/24"
TWIN = "twin-"
"""How the names of policies begin whose rules are all redundant."""


def scenario(n: int, seed: int = 1) -> tuple[Objects, Objects]:
    """(policies, cluster objects): N policies of all tiers together, N pods."""
    policies, cluster = objects(n, seed)
    rng = random.Random(seed + 1)
    for item in cluster:
        if item["kind"] == "Pod":
            app = int(item["metadata"]["labels"]["app"].removeprefix("app"))
            item["spec"]["containers"][0]["ports"][0]["containerPort"] = 8080 + app % 3
    n_admin = min(max(1, n // ADMIN_SHARE), 1000)
    admin = [_admin(rng, i) for i in range(n_admin)]
    return [*admin, *policies[: n - n_admin - 1], _baseline()], cluster


def _admin(rng: random.Random, i: int) -> dict[str, Any]:
    """An AdminNetworkPolicy about one team's namespaces, with all three actions."""
    team = {"namespaces": {"matchLabels": {"team": f"t{rng.randrange(7)}"}}}
    app = {
        "pods": {
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"app": f"app{rng.randrange(20)}"}},
        }
    }
    low = rng.choice((22, 3306, 5432, 9000))
    rules = [
        {"action": "Allow", "from": [app], "ports": [_port(9090)]},
        {"action": "Pass", "from": [team], "ports": [_port(8080)]},
        {"action": "Deny", "from": [team, app], "ports": [_range(low, low + rng.randrange(1, 50))]},
    ]
    spec = {"priority": i, "subject": team, "ingress": rules[: rng.randint(1, 3)]}
    if rng.random() < 0.5:
        net = f"192.168.{rng.randrange(256)}.0/24"
        spec["egress"] = [{"action": "Deny", "to": [{"networks": [net]}]}]
    return _policy("AdminNetworkPolicy", f"admin-{i}", spec)


def _baseline() -> dict[str, Any]:
    spec = {
        "subject": {"namespaces": {}},
        "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
        "egress": [{"action": "Deny", "to": [{"networks": ["169.254.0.0/16"]}]}],
    }
    return _policy("BaselineAdminNetworkPolicy", "default", spec)


def _policy(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = "policy.networking.k8s.io/v1alpha1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _port(number: int) -> dict[str, Any]:
    return {"portNumber": {"protocol": "TCP", "port": number}}


def _range(start: int, end: int) -> dict[str, Any]:
    return {"portRange": {"protocol": "TCP", "start": start, "end": end}}


def one_rule_changed(policies: Objects, seed: int = 1) -> Objects:
    """One rule of a NetworkPolicy allows one more network, which no other rule names."""
    changed = copy.deepcopy(policies)
    _, direction, rule = random.Random(seed).choice(list(_rules(changed)))
    rule["from" if direction == "ingress" else "to"].append({"ipBlock": {"cidr": OPENED}})
    return changed


def refactored(policies: Objects, seed: int = 1) -> Objects:
    """The same meaning: a policy for each peer, port ranges in two halves, another order."""
    found: Objects = []
    for policy in policies:
        if policy["kind"] != "NetworkPolicy":
            found.append(_halved_admin(policy))
            continue
        found += _split(policy)
    random.Random(seed).shuffle(found)
    return found


def refactored_with_a_slip(policies: Objects, seed: int = 1) -> Objects:
    """The refactored policies, where one of the split policies allows one more network."""
    return one_rule_changed(refactored(policies, seed), seed)


def with_redundant(policies: Objects, seed: int = 1, share: int = 20) -> Objects:
    """One policy in `share` more, each with a rule of another and its two halves beside it."""
    rng = random.Random(seed)
    given = [policy for policy in policies if policy["kind"] == "NetworkPolicy"]
    copies = []
    for at, policy in enumerate(rng.sample(given, len(given) // share)):
        twin = copy.deepcopy(policy)
        twin["metadata"]["name"] = f"{TWIN}{at}"
        for rule in [rule for _, _, rule in _rules([twin])]:
            rule["ports"] = [half for port in rule["ports"] for half in (port, *_halves(port))]
        copies.append(twin)
    return [*policies, *copies]


CHANGES: dict[str, Callable[[Objects], Objects]] = {
    "one-rule": one_rule_changed,
    "refactor": refactored,
    "bug": refactored_with_a_slip,
}


def _rules(policies: Objects) -> Iterator[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(policy, direction, rule) of the NetworkPolicies."""
    for policy in policies:
        for direction in ("ingress", "egress"):
            if policy["kind"] == "NetworkPolicy":
                for rule in policy["spec"].get(direction, ()):
                    yield policy, direction, rule


def _split(policy: dict[str, Any]) -> Objects:
    """One policy for each peer of each rule; together they isolate in the same directions."""
    found = []
    for _, direction, rule in _rules([policy]):
        key = "from" if direction == "ingress" else "to"
        for peer in rule[key]:
            ports = [half for port in rule["ports"] for half in _halves(port) or (port,)]
            spec = {
                "podSelector": policy["spec"]["podSelector"],
                "policyTypes": [direction.capitalize()],
                direction: [{key: [peer], "ports": ports}],
            }
            metadata = {
                **policy["metadata"],
                "name": f"{policy['metadata']['name']}-{len(found)}",
            }
            found.append({**policy, "metadata": metadata, "spec": spec})
    return found


def _halves(port: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """A range of two ports or more in two halves; none for other ports."""
    low, high = port["port"], port.get("endPort")
    if high is None or high <= low:
        return ()
    middle = (low + high) // 2
    return {**port, "endPort": middle}, {**port, "port": middle + 1}


def _halved_admin(policy: dict[str, Any]) -> dict[str, Any]:
    changed = copy.deepcopy(policy)
    for rule in changed["spec"].get("ingress", ()):
        ports = rule.get("ports", [])
        for port in [p["portRange"] for p in ports if "portRange" in p]:
            middle = (port["start"] + port["end"]) // 2
            if middle > port["start"]:
                ports.append(_range(middle, port["end"]))
                port["end"] = middle
    return changed
