# SPDX-License-Identifier: Apache-2.0
"""Synthetic clusters and policies of a given size, as YAML: `python tests/bench/synthetic.py N DIR`.

N NetworkPolicies over N pods in N/50 namespaces, with selectors, ipBlocks with excepts, port ranges and
named ports in the mix that the proofs and tables are sized for. The same N gives the same files.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any


def objects(n: int, seed: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(policies, cluster objects)."""
    rng = random.Random(seed)
    spaces = [f"ns{i}" for i in range(max(1, n // 50))]
    cluster: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _named(s, team=f"t{i % 7}")}
        for i, s in enumerate(spaces)
    ]
    cluster += [_pod(rng, i, spaces) for i in range(n)]
    return [_policy(rng, i, spaces) for i in range(n)], cluster


def _pod(rng: random.Random, i: int, spaces: list[str]) -> dict[str, Any]:
    address = f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{i}",
            "namespace": spaces[i % len(spaces)],
            "labels": {
                "app": f"app{rng.randrange(20)}",
                "tier": rng.choice(("web", "db", "cache")),
            },
        },
        "spec": {"containers": [{"name": "c", "ports": [_http(8080 + i % 3)]}]},
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": _ips(address, f"fd00::{i + 1:x}"),
        },
    }


def _named(name: str, **labels: str) -> dict[str, Any]:
    return {"name": name, "labels": labels}


def _http(number: int) -> dict[str, Any]:
    return {"name": "http", "containerPort": number}


def _ips(*addresses: str) -> list[dict[str, str]]:
    return [{"ip": address} for address in addresses]


def _policy(rng: random.Random, i: int, spaces: list[str]) -> dict[str, Any]:
    types = rng.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
    spec: dict[str, Any] = {
        "podSelector": {"matchLabels": {"app": f"app{rng.randrange(20)}"}},
        "policyTypes": types,
    }
    for direction, key in (("Ingress", "from"), ("Egress", "to")):
        if direction in types:
            spec[direction.lower()] = [_rule(rng, key) for _ in range(rng.randint(1, 3))]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": f"policy-{i}", "namespace": spaces[i % len(spaces)]},
        "spec": spec,
    }


def _rule(rng: random.Random, key: str) -> dict[str, Any]:
    peers: list[dict[str, Any]] = [
        {"podSelector": {"matchLabels": {"app": f"app{rng.randrange(20)}"}}}
    ]
    if rng.random() < 0.4:
        peers.append({"namespaceSelector": {"matchLabels": {"team": f"t{rng.randrange(7)}"}}})
    if rng.random() < 0.4:
        net = f"172.{rng.randrange(16, 32)}.{rng.randrange(256)}"
        hole = f"{net}.{rng.randrange(4) * 64}/26"
        peers.append({"ipBlock": {"cidr": f"{net}.0/24", "except": [hole]}})
    low = rng.choice((80, 443, 8080, 9000))
    ports: list[dict[str, Any]] = [{"protocol": "TCP", "port": low}]
    if rng.random() < 0.3:
        ports.append({"protocol": "TCP", "port": low, "endPort": low + rng.randrange(100)})
    if rng.random() < 0.2:
        ports.append({"port": "http"})
    return {key: peers, "ports": ports}


def write(n: int, folder: Path) -> None:
    """Write `policies/all.yaml` and `cluster/all.yaml` under `folder` (JSON is YAML)."""
    import yaml

    for name, documents in zip(("policies", "cluster"), objects(n), strict=True):
        (folder / name).mkdir(parents=True, exist_ok=True)
        text = yaml.dump_all(documents, Dumper=yaml.CSafeDumper, sort_keys=False)
        (folder / name / "all.yaml").write_text(text)
    (folder / "size.json").write_text(json.dumps({"n": n}))


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
