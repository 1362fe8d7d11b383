# SPDX-License-Identifier: Apache-2.0
"""`policyc compile --node` and `--all-nodes`: bundles of nodes, whole or not at all."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from policyc.compiler.cli.main import run
from policyc.compiler.driver.node_bundles import node_bundles
from policyc.ir.errors import InternalError
from policyc.runtime.bundle.bundle import read_bundle
from policyc.verifier.decision.outcome import Broken
from tests.bench import synthetic
from tests.dask_cluster import dask_cluster

ROOT = Path(__file__).parents[2]

NODES = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 policies over 60 pods on two nodes, some on none; the third node has no pod."""
    folder = tmp_path_factory.mktemp("cluster")
    policies, objects = synthetic.objects(60)
    pods = [each for each in objects if each["kind"] == "Pod"]
    for at, pod in enumerate(pods):
        if at % 7:
            pod["spec"]["nodeName"] = NODES[at % 2]
    objects += [_node(name, at) for at, name in enumerate(NODES)]
    for name, documents in (("policies.yaml", policies), ("cluster.yaml", objects)):
        (folder / name).write_text(yaml.dump_all(documents, Dumper=yaml.CSafeDumper))
    return folder


def _node(name: str, at: int) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": f"192.0.2.{at + 1}"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"addresses": addresses},
    }


def compiled(cluster: Path, out: Path, *options: str) -> int:
    return run(
        ["compile", "-f", str(cluster / "policies.yaml"),
         "--cluster", str(cluster / "cluster.yaml"), "-o", str(out), *options]
    )  # fmt: skip


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def schema(name: str) -> Any:
    return json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text())


@pytest.fixture(scope="module")
def all_nodes(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("nodes") / "out"
    assert compiled(cluster, out, "--all-nodes") == 0
    return out


def test_each_node_has_a_bundle_that_can_be_read_and_copied_alone(
    all_nodes: Path, tmp_path: Path
) -> None:
    index = json.loads((all_nodes / "index.json").read_text())
    jsonschema.validate(index, schema("node-bundles-v1"))
    assert tuple(index["nodes"]) == NODES
    for node, entry in index["nodes"].items():
        copy = tmp_path / node
        shutil.copytree(all_nodes / entry["bundle"], copy)
        bundle = read_bundle(copy)
        assert (bundle.node, bundle.digest) == (node, entry["digest"])
        jsonschema.validate(json.loads((copy / "manifest.json").read_text()), schema("bundle-v1"))


def test_equal_files_are_stored_once(all_nodes: Path) -> None:
    objects = all_nodes / "objects" / "sha256"
    for path in objects.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    inodes = {path.stat().st_ino for path in objects.iterdir()}
    files = [path for path in (all_nodes / "nodes").rglob("*") if path.is_file()]
    assert {path.stat().st_ino for path in files} == inodes
    assert len(files) >= 2 * len(inodes), "three bundles share most of what they have"


@pytest.mark.parametrize("node", NODES)
def test_a_bundle_of_one_node_equals_its_bundle_among_all_nodes(
    cluster: Path, all_nodes: Path, tmp_path: Path, node: str
) -> None:
    assert compiled(cluster, tmp_path / "one", "--node", node) == 0
    one, other = tree(tmp_path / "one"), tree(all_nodes / "nodes" / node)
    manifests = [json.loads(files.pop("manifest.json")) for files in (one, other)]
    assert one == other
    for manifest in manifests:
        assert manifest.pop("proof")["decision_ir_equals_policy_ir"] == "proved"
    assert manifests[0] == manifests[1]


def test_a_node_has_the_rows_of_its_pods_and_every_column(
    cluster: Path, all_nodes: Path, tmp_path: Path
) -> None:
    assert compiled(cluster, tmp_path / "whole") == 0
    whole = json.loads((tmp_path / "whole" / "classifier.json").read_text())
    for node in NODES:
        part = json.loads((all_nodes / "nodes" / node / "classifier.json").read_text())
        assert part["columns"] == whole["columns"]
        assert 1 < len(part["rows"]) < len(whole["rows"])
        assert all(row in whole["rows"] for row in part["rows"])
        assert {**part, "rows": 0} == {**whole, "rows": 0}


def test_processes_give_the_same_bytes(cluster: Path, all_nodes: Path, tmp_path: Path) -> None:
    options = ("--all-nodes", "--jobs", "2", "--cache", str(tmp_path / "cache"))
    assert compiled(cluster, tmp_path / "out", *options) == 0
    assert tree(tmp_path / "out") == tree(all_nodes)
    assert compiled(cluster, tmp_path / "out", *options) == 0, "an older one is replaced"
    assert tree(tmp_path / "out") == tree(all_nodes)


@pytest.mark.slow  # it starts the cluster; `diff` uses one in every run
def test_a_dask_cluster_gives_the_same_bytes(
    cluster: Path, all_nodes: Path, tmp_path: Path
) -> None:
    with dask_cluster(1) as where:
        assert compiled(cluster, tmp_path / "out", "--all-nodes", "--executor", where) == 0
    assert tree(tmp_path / "out") == tree(all_nodes)


def test_the_bundle_of_another_node_is_not_loaded(
    all_nodes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints = tmp_path / "endpoints.json"
    value = {"schema": "policyc.dev/endpoints/v1", "node": "node-b", "endpoints": []}
    endpoints.write_text(json.dumps(value))
    bundle = str(all_nodes / "nodes" / "node-a")
    assert run(["node", "load", bundle, "--endpoints", str(endpoints)]) == 2
    assert "the bundle is for the node node-a" in capsys.readouterr().err


def test_the_json_matches_its_schema(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compiled(cluster, tmp_path / "out", "--all-nodes", "--format", "json") == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.validate(value, schema("compile-nodes-result-v1"))
    assert compiled(cluster, tmp_path / "one", "--node", "node-a", "--format", "json") == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.validate(value, schema("compile-result-v1"))
    assert value["node"] == "node-a"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--node", "node-a", "--all-nodes"], "either --node NAME or --all-nodes"),
        (["--node", ""], "--node needs the name of a node"),
        (["--cache", ""], "--cache needs the name of a directory"),
        (["--cache-size", "5"], "--cache-size needs --cache"),
        (["--node", "nod-a"], "did you mean `node-a`?"),
        (["--jobs", "2"], "--jobs and --executor need --all-nodes"),
        (["--executor", "dask://localhost:8786"], "--jobs and --executor need --all-nodes"),
        (["--all-nodes", "--executor", "ssh://somewhere"], "expected dask://HOST:PORT"),
    ],
)
def test_contradictory_options_are_reported(
    cluster: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    assert compiled(cluster, tmp_path / "out", *options) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "nothing half-written"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--node", "node-a", "-o", "out"], "--node needs --cluster"),
        (["--all-nodes", "-o", "out"], "--all-nodes needs --cluster"),
        (["--all-nodes"], "give one of -o BUNDLE"),
        (["--all-nodes", "--emit", "c", "--cluster", "cluster.yaml"], "--all-nodes needs -o DIR"),
    ],
)
def test_missing_options_are_reported(
    cluster: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["compile", "-f", str(cluster / "policies.yaml"), *options]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_cluster_without_nodes_has_no_bundles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(3, tmp_path)
    shutil.copy(tmp_path / "policies" / "all.yaml", tmp_path / "policies.yaml")
    shutil.copy(tmp_path / "cluster" / "all.yaml", tmp_path / "cluster.yaml")
    assert compiled(tmp_path, tmp_path / "out", "--all-nodes") == 2
    assert "PC0917" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_node_name_with_a_path_is_refused(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (cluster / "cluster.yaml").read_text().replace("nodeName: node-a", "nodeName: ../../x")
    (tmp_path / "cluster.yaml").write_text(text)
    shutil.copy(cluster / "policies.yaml", tmp_path)
    assert compiled(tmp_path, tmp_path / "deep" / "out", "--all-nodes") == 2
    assert "../../x" in capsys.readouterr().err
    assert not (tmp_path / "deep").exists()


def test_a_directory_without_node_bundles_is_not_replaced(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("")
    assert compiled(cluster, tmp_path, "--all-nodes") == 2
    assert "PC0916" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_node_bundle_that_differs_from_the_whole_is_an_internal_error(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> list[Broken]:
        return [Broken("restriction", "another row")]

    monkeypatch.setattr(node_bundles, "restriction_faults", broken)
    assert compiled(cluster, tmp_path / "out", "--all-nodes") == InternalError.exit_code
    assert not list(tmp_path.iterdir())
