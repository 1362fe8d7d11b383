# SPDX-License-Identifier: Apache-2.0
"""`region` in the JSON of a diff: flows made from it change as the region says."""

import json
import shutil
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from tests.end_to_end.command import policyc_here

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "online-shop"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "diff-v1.schema.json").read_text())
CLUSTER = ("--cluster", str(SHOP / "cluster"))
ALLOWED = {"widened": (False, True), "narrowed": (True, False)}


@pytest.fixture(autouse=True)
def _sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies of one namespace are gone, and those of another are new."""
    monkeypatch.chdir(tmp_path)
    for side, without in (("old", "payments.yaml"), ("new", "kube-system.yaml")):
        shutil.copytree(SHOP / "policies", side)
        (Path(side) / without).unlink()


def diff(capfd: pytest.CaptureFixture[str], *options: str) -> Any:
    capfd.readouterr()
    assert run(["diff", "old", "new", "--format", "json", *options]) == 1
    found = json.loads(capfd.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    return found


def flows(found: Any, region: Any) -> Iterator[dict[str, object]]:
    """A few flows of a region: a member of each group, an address of each network, ends of ranges."""
    for src in ends(found, region["from"]):
        for dst in ends(found, region["to"]):
            for part in region["services"]:
                for each in part["ranges"]:
                    if src != dst and each["protocol"] in ("TCP", "UDP", "SCTP"):
                        for port in {each["first"], each["last"]} - {0}:
                            yield {"src": src, "dst": dst, "port": port, "family": 4,
                                   "protocol": each["protocol"].lower()}  # fmt: skip


def ends(found: Any, given: Any) -> list[str]:
    members = {found["groups"][number][0] for number in given["groups"]}
    pods = {name for name in members if not name.startswith("node/")}  # one reaches its own pods
    blocks = map(ip_network, given["networks"])
    outside = [str(block[-2 % block.num_addresses]) for block in blocks if block.version == 4]
    return [*sorted(pods)[:3], *outside[:2]]


def allowed(side: str, asked: list[dict[str, object]]) -> list[bool]:
    """Whether the reference semantics allows each flow."""
    Path("flows.jsonl").write_text("".join(f"{json.dumps(flow)}\n" for flow in asked))
    given = ("eval", "-f", side, *CLUSTER, "--flows", "flows.jsonl", "--format", "json")
    done = policyc_here(*given, "--engine", "semantics")
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["verdict"] == "allow" for line in done.stdout.splitlines()]


def test_flows_of_a_region_over_a_cluster_change_as_it_says(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = diff(capfd, *CLUSTER)
    kinds = set()
    for difference in found["differences"]:
        if difference["kind"] in ALLOWED:
            asked = list(flows(found, difference["region"]))[:40]
            wanted = ALLOWED[difference["kind"]]
            for side, is_allowed in zip(("old", "new"), wanted, strict=True):
                assert set(allowed(side, asked)) <= {is_allowed}, difference["from"]
            kinds |= {difference["kind"]} if asked else set()
    assert kinds == ALLOWED.keys()


def test_conditions_of_the_symbolic_universe_are_those_of_the_policies(
    capfd: pytest.CaptureFixture[str],
) -> None:
    found = diff(capfd, "--limit", "40")
    assert "groups" not in found
    peers = [
        condition["peer"]
        for difference in found["differences"]
        for side in ("from", "to")
        for condition in difference["region"][side]["all_of"]
    ]
    dns = {"namespace": "kube-system",
           "labels": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]}  # fmt: skip
    assert {"pods": dns} in peers
    assert {"among": "peers", "all_of": []} in [d["region"]["from"] for d in found["differences"]]
