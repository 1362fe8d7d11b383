# SPDX-License-Identifier: Apache-2.0
"""What every command prints as JSON is what the schemas in docs/schemas say."""

import json
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.eval.lab import (
    lab_endpoints,
    lab_pods,
    metadata_of,
)
from policyc.compiler.frontend import PathSource, ReadOptions, read_cluster
from policyc.runtime.lab.topology import Lab

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
SHOP = ROOT / "examples" / "online-shop"
INPUT = ["-f", str(SHOP / "policies"), "--cluster", str(SHOP / "cluster")]


def check(value: Any, name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(value)


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.name)
def test_a_schema_is_a_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_compile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", *INPUT, "-o", str(tmp_path / "b"), "--format", "json"]) == 0
    check(json.loads(capfd.readouterr().out), "compile-result-v1")
    check(json.loads((tmp_path / "b" / "manifest.json").read_text()), "bundle-v1")


@pytest.mark.parametrize("profile", ["kubernetes", "calico", "cilium"])
def test_the_manifest_of_every_profile(profile: str, tmp_path: Path) -> None:
    out = tmp_path / "b"
    assert run(["compile", *INPUT, "-o", str(out), "--profile", profile]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["profile"] == profile
    check(manifest, "bundle-v1")


def test_the_manifest_of_rules_with_effects(tmp_path: Path) -> None:
    """Every kind of map that a bundle can have is there."""
    policy = tmp_path / "p.yaml"
    policy.write_text(
        """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: p, namespace: shop}
spec:
  tier: 500
  appliesTo: all
  rules: |
    ingress:
      allow tcp/80 from any log limit 5/s
"""
    )
    out = tmp_path / "b"
    assert run(["compile", "-f", str(policy), "-o", str(out)]) == 0
    manifest = json.loads((out / "manifest.json").read_text())
    check(manifest, "bundle-v1")
    kinds = {each["kind"] for each in manifest["maps"]}
    assert {"lru_hash", "ringbuf", "prog_array"} <= kinds


def test_eval(capfd: pytest.CaptureFixture[str]) -> None:
    flow = ["203.0.113.1", "payments/payment-gateway", "tcp/8443"]
    assert run(["eval", *INPUT, *flow, "--format", "json"]) == 0
    check(json.loads(capfd.readouterr().out), "eval-answer-v1")


def test_list(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["list", *INPUT, "--exposure", "--format", "json"]) == 0
    check(json.loads(capfd.readouterr().out), "list-v1")


def test_eval_scenarios(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "status": {"podIP": "10.0.0.1"},
    }
    policy: dict[str, Any] = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p"},
        "spec": {"podSelector": {}},
    }
    wrong = {**policy, "spec": {"podSelectr": {}}}
    flows = [
        {"src": "192.0.2.1", "dst": "default/a", "protocol": "TCP", "port": 80},
        {"src": "192.0.2.1", "dst": "default/nobody", "protocol": "TCP", "port": 80},
    ]
    lines = [
        {"id": "good", "objects": [pod, policy], "flows": flows},
        {"id": 2, "objects": [pod, wrong], "flows": flows},
    ]
    path = tmp_path / "scenarios.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + "not JSON\n")
    assert run(["eval", "--scenarios", str(path)]) == 0
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == ["good", 2, None]
    for answer in answers:
        check(answer, "eval-scenario-v1")


@pytest.mark.kernel
@pytest.mark.kernel
def test_node_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", *INPUT, "-o", str(tmp_path / "b")]) == 0
    universe = read_cluster([PathSource(str(SHOP / "cluster"))], ReadOptions()).universe
    pods = lab_pods(universe)[:2]
    with Lab(lab_endpoints(pods)) as lab, tempfile.TemporaryDirectory() as folder:
        endpoints = Path(folder) / "endpoints.json"
        lab.node.write_endpoints(endpoints, metadata_of(pods))
        bpffs = ["--bpffs", str(lab.node.bpffs)]
        status = ["node", "status", *bpffs, "--format", "json"]
        load = ["node", "load", str(tmp_path / "b"), "--endpoints", str(endpoints), *bpffs]
        capfd.readouterr()
        assert lab.node.run_in(lambda: run(status)) == 0
        check(json.loads(capfd.readouterr().out), "node-status-v1")
        assert lab.node.run_in(lambda: run(load)) == 0
        capfd.readouterr()
        assert lab.node.run_in(lambda: run(status)) == 0
        said = json.loads(capfd.readouterr().out)
        check(said, "node-status-v1")
        assert len(said["endpoints"]) == 2 and said["reassembly"] is None
        assert lab.node.run_in(lambda: run([*load, "--reassemble"])) == 0
        capfd.readouterr()
        assert lab.node.run_in(lambda: run(status)) == 0
        said = json.loads(capfd.readouterr().out)
        check(said, "node-status-v1")
        assert said["reassembly"] == {"sent": 0, "back": 0, "over": 0}
        assert lab.node.run_in(lambda: run(["node", "unload", *bpffs])) == 0
