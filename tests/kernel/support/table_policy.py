# SPDX-License-Identifier: Apache-2.0
"""Bundles by hand: which end may send what to which end, written straight into seeds.

Every pod has its own row and column, the world has column `WORLD`. Pods are isolated in both
directions, so all that is not written is denied. No compiler is involved: these tests are of the
datapath.
"""

import hashlib
import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from policyc.ir.trees import (
    Nodes,
    verdict_word,
)
from policyc.runtime.bundle.address_value import Address
from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.endpoints import (
    EndpointRecord,
    NodeRecord,
)
from policyc.runtime.endpoints.placement import (
    MapWrite,
    Placement,
)

ROWS = COLUMNS = 16
WORLD = 15
RULE_ALLOWED, RULE_DENIED = 2, 3
SIZES = {"pc_class": 16, "pc_cells_in": 256, "pc_cells_eg": 256, "pc_nodes": 512}
SIZES |= {"pc_counts": 16, "pc_cidr4": 8, "pc_cidr6": 8}
VALUE_WORDS = {"pc_class": 3, "pc_nodes": 16, "pc_counts": 4}
KEY_WORDS = {"pc_cidr4": 2, "pc_cidr6": 5}

Service = tuple[int, int]  # lowest and highest service key
ANY: Service = (0, 0xFFFFFFFF)


def service(kind: int, value: int) -> Service:
    return (kind << 16 | value, kind << 16 | value)


def tcp_port(port: int) -> Service:
    return service(0, port)


def udp_port(port: int) -> Service:
    return service(1, port)


def sctp_port(port: int) -> Service:
    return service(2, port)


PING4, PING6 = service(3, 8 << 8), service(4, 128 << 8)


@dataclass
class TablePolicy:
    """Allowed services by (row, column), for each direction; names are those of pods."""

    pods: tuple[str, ...]
    egress: dict[tuple[int, int], list[Service]] = field(default_factory=dict)
    ingress: dict[tuple[int, int], list[Service]] = field(default_factory=dict)
    host: dict[str, Any] | None = None
    """The interface in hosts.json of a node under host policy. Its row is that of the pod `host`."""

    def number(self, name: str) -> int:
        return WORLD if name == "world" else 1 + self.pods.index(name)

    def allow(self, src: str, dst: str, *services: Service) -> "TablePolicy":
        """At both ends, as far as they are pods."""
        return self.allow_egress(src, dst, *services).allow_ingress(src, dst, *services)

    def allow_egress(self, src: str, dst: str, *services: Service) -> "TablePolicy":
        self.egress.setdefault((self.number(src), self.number(dst)), []).extend(services)
        return self

    def allow_ingress(self, src: str, dst: str, *services: Service) -> "TablePolicy":
        self.ingress.setdefault((self.number(dst), self.number(src)), []).extend(services)
        return self

    def seeds(self) -> dict[str, bytes]:
        nodes = Nodes()
        cells = {
            name: b"".join(
                struct.pack("<I", _word(nodes, allowed.get((row, column), [])))
                if row and column
                else bytes(4)
                for row in range(ROWS)
                for column in range(COLUMNS)
            )
            for name, allowed in (("pc_cells_eg", self.egress), ("pc_cells_in", self.ingress))
        }
        return cells | {
            "pc_nodes": b"".join(struct.pack("<16I", *node) for node in nodes.nodes),
            "pc_cidr4": struct.pack("<I4sI", 0, bytes(4), WORLD),
            "pc_cidr6": struct.pack("<I16sI", 0, bytes(16), WORLD),
        }


def _word(nodes: Nodes, allowed: list[Service]) -> int:
    steps = [(0, False)]
    for lo, hi in sorted(allowed):
        if steps[-1][0] == lo:
            steps.pop()
        steps.append((lo, True))
        if hi < 0xFFFFFFFF:
            steps.append((hi + 1, False))
    return nodes.tree(
        [(at, verdict_word(yes, RULE_ALLOWED if yes else RULE_DENIED)) for at, yes in steps]
    )


def write_bundle(folder: Path, objects: Path, policy: TablePolicy, *, kernel: str = "6.1") -> Path:
    """A bundle around compiled objects; the folder is made."""
    folder.mkdir()
    (folder / "seeds").mkdir()
    for name in ("policy.bpf.o", "hooks.bpf.o"):
        (folder / name).write_bytes((objects / name).read_bytes())
    seeds = policy.seeds()
    for name, data in seeds.items():
        (folder / "seeds" / f"{name}.bin").write_bytes(data)
    rules = [{"id": i, "action": action, "policies": [name], "places": []} for i, action, name in (
        (0, "allow", "not isolated"), (1, "deny", "fail closed"),
        (2, "allow", "shop/allowed"), (3, "deny", "shop/default"))]  # fmt: skip
    rules[2]["places"] = [{"file": "shop.yaml", "line": 12, "column": 5, "path": "ingress[0]"}]
    (folder / "rules.json").write_text(json.dumps({"rules": rules}))
    (folder / "plan.json").write_text(json.dumps({"endpoints": 16}))
    (folder / "classifier.json").write_text(json.dumps({"pods": policy.pods}))
    if policy.host is not None:
        hosts = {"schema": "policyc.dev/hosts/v1", "every_node": False, "interfaces": [policy.host]}
        (folder / "hosts.json").write_text(json.dumps(hosts))
    maps = [
        {"name": name, "object": "policy.bpf.o", "kind": "array", "entries": entries,
         "seed": f"seeds/{name}.bin" if name in seeds else None,
         "key_words": KEY_WORDS.get(name, 0), "value_words": VALUE_WORDS.get(name, 1)}
        for name, entries in SIZES.items()
    ]  # fmt: skip
    manifest = {
        "schema": "policyc.dev/bundle/v1", "policyc": "0.1.0", "minimum_kernel": kernel,
        "maps": maps, "files": digests(folder),
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


class NamePlacer:
    """Places a pod by its name: the classifier of these tests."""

    def __init__(self, bundle: Bundle) -> None:
        self._pods: list[str] = bundle.classifier["pods"]

    class_fields = ("row", "column4", "column6")

    def place(self, endpoint: EndpointRecord) -> Placement:
        at = 1 + self._pods.index(endpoint.name)
        return dict.fromkeys(self.class_fields, at)

    reads_nodes = True
    """The node is in the maps in every test here: nothing may take it for a pod."""

    def place_node(self, node: NodeRecord, address: Address, is_local: bool) -> Placement:
        return {"row": 0, "column4": WORLD, "column6": WORLD}

    def place_host(self, subject: EndpointRecord, node: NodeRecord, address: Address) -> Placement:
        return {"row": 1 + self._pods.index("host"), "column4": WORLD, "column6": WORLD}

    def drain_writes(self) -> list[MapWrite]:
        return []

    def new_rules(self) -> list[dict[str, Any]]:
        return []

    n_unnoted = 0

    def refused(self) -> tuple[str, ...]:
        return ()


class LabelPlacer(NamePlacer):
    """Places a pod by its label `app`, which is its name until it is changed."""

    def place(self, endpoint: EndpointRecord) -> Placement:
        return super().place(replace(endpoint, name=endpoint.labels["app"]))


NO_OTHERS: Mapping[str, Iterable[str]] = {}


def endpoints_json(
    node: str,
    endpoints: Iterable[dict[str, object]],
    addresses: Iterable[str] = (),
    labels: dict[str, str] | None = None,
    others: Mapping[str, Iterable[str]] = NO_OTHERS,
) -> str:
    """The endpoints file; with `addresses`, the node itself is in it. `others` are other nodes'."""
    own = {"name": node, "addresses": list(addresses), "labels": labels or {}}
    nodes = [own] if addresses else []
    nodes += [{"name": name, "addresses": list(each)} for name, each in others.items()]
    return json.dumps(
        {
            "schema": "policyc.dev/endpoints/v1",
            "node": node,
            "endpoints": list(endpoints),
            "nodes": nodes,
        }
    )
