# SPDX-License-Identifier: Apache-2.0
"""Rule sets for the policy benchmark: N rules on one endpoint, and flows that meet all of them alike.

`selectors`: each rule names the pods of an app of its own; `cidrs`: a /24 of its own; `ports`: any peer,
three ports of its own; `mixed`: selectors and CIDRs in turn, and every fiftieth rule is for ports alone.
Every rule has a port. One flow in five asks for the next port, and is denied unless another rule
allows it.
"""

import random
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Any

KINDS = ("selectors", "cidrs", "ports", "mixed")
SUBJECT = IPv4Address("10.0.0.1")
FIRST_POD = int(IPv4Address("10.1.0.0"))
FIRST_NETWORK = int(IPv4Address("100.0.0.0"))
TCP = 6


@dataclass(frozen=True)
class Rule:
    """One egress rule: to pods by their label `app`, to a block, or, without either, to anyone."""

    app: int | None
    network: IPv4Network | None
    low: int
    high: int

    def matches(self, address: int, app: int | None, port: int) -> bool:
        """Whether a flow to this address (of the pod of this app) and port is allowed by the rule."""
        if not self.low <= port <= self.high:
            return False
        if self.network is not None:
            return IPv4Address(address) in self.network
        return self.app is None or self.app == app


@dataclass(frozen=True)
class BenchFlow:
    """A flow from the subject: address, the app of the pod that has it or None, port."""

    address: int
    app: int | None
    port: int


@dataclass(frozen=True)
class BenchCase:
    """Rules of one kind, and flows drawn uniformly from the values that they name."""

    kind: str
    rules: tuple[Rule, ...]
    flows: tuple[BenchFlow, ...]

    @property
    def name(self) -> str:
        """`cidrs 1000`."""
        return f"{self.kind} {len(self.rules)}"

    @cached_property
    def expected(self) -> tuple[bool, ...]:
        """Whether each flow is allowed, by the rules as they are written down here."""
        by_app: dict[int | None, list[Rule]] = {}
        by_network: dict[int, list[Rule]] = {}
        for rule in self.rules:
            if rule.network is not None:
                by_network.setdefault(int(rule.network.network_address) >> 8, []).append(rule)
            else:
                by_app.setdefault(rule.app, []).append(rule)
        return tuple(
            any(
                rule.matches(flow.address, flow.app, flow.port)
                for rule in (
                    *by_app.get(None, ()),
                    *(by_app.get(flow.app, ()) if flow.app is not None else ()),
                    *by_network.get(flow.address >> 8, ()),
                )
            )
            for flow in self.flows
        )

    @property
    def apps(self) -> list[int]:
        """The apps that there are pods of."""
        return [rule.app for rule in self.rules if rule.app is not None]

    def objects(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """(policies, cluster objects) as Kubernetes has them."""
        spec = {
            "podSelector": {"matchLabels": {"role": "subject"}},
            "policyTypes": ["Egress"],
            "egress": [_rule_object(rule) for rule in self.rules],
        }
        policy = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "bench", "namespace": "bench"},
            "spec": spec,
        }
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}}
        pods = [_pod("subject", {"role": "subject"}, SUBJECT)]
        pods += [_pod(f"pod-{app}", {"app": f"app-{app}"}, address_of(app)) for app in self.apps]
        return [policy], [namespace, *pods]


def address_of(app: int) -> IPv4Address:
    """The address of the pod of an app."""
    return IPv4Address(FIRST_POD + app)


def bench_case(kind: str, n_rules: int, n_flows: int) -> BenchCase:
    """The case of a kind and size; the same arguments give the same case."""
    rng = random.Random(f"{kind} {n_rules}")
    networks = rng.sample(range(1 << 17), n_rules)
    rules = tuple(_rule(kind, at, networks[at]) for at in range(n_rules))
    flows = tuple(_flow(rng, rng.choice(rules)) for _ in range(n_flows))
    return BenchCase(kind, rules, flows)


def _rule(kind: str, at: int, network: int) -> Rule:
    if kind == "mixed":
        kind = "ports" if at % 50 == 49 else ("selectors", "cidrs")[at % 2]
    port = 1000 + at % 50
    match kind:
        case "selectors":
            return Rule(at, None, port, port)
        case "cidrs":
            return Rule(None, IPv4Network((FIRST_NETWORK + (network << 8), 24)), port, port)
        case _:
            low = 2000 + at * 6 % 60000
            return Rule(None, None, low, low + 2)


def _flow(rng: random.Random, rule: Rule) -> BenchFlow:
    port = rng.randint(rule.low, rule.high) if rng.random() < 0.8 else rule.high + 1
    if rule.network is not None:
        return BenchFlow(int(rule.network.network_address) + rng.randrange(256), None, port)
    if rule.app is not None:
        return BenchFlow(int(address_of(rule.app)), rule.app, port)
    return BenchFlow(int(IPv4Address("203.0.113.0")) + rng.randrange(256), None, port)


def _rule_object(rule: Rule) -> dict[str, Any]:
    port: dict[str, Any] = {"protocol": "TCP", "port": rule.low}
    if rule.high > rule.low:
        port["endPort"] = rule.high
    out: dict[str, Any] = {"ports": [port]}
    if rule.network is not None:
        out["to"] = [{"ipBlock": {"cidr": str(rule.network)}}]
    elif rule.app is not None:
        out["to"] = [{"podSelector": {"matchLabels": {"app": f"app-{rule.app}"}}}]
    return out


def _pod(name: str, labels: dict[str, str], address: IPv4Address) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "bench", "labels": labels},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": str(address), "podIPs": [{"ip": str(address)}]},
    }
