# SPDX-License-Identifier: Apache-2.0
"""`policyc list` from the command line: formats, focus, exposure, and what is refused."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from policyc.compiler.cli.main import run

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "online-shop"
CLUSTER = ["--cluster", str(SHOP / "cluster")]
INPUT = ["-f", str(SHOP / "policies"), *CLUSTER]
GOLDEN = ROOT / "tests" / "golden" / "list"
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "list-v1.schema.json").read_text())
ENDINGS = {"text": "txt", "csv": "csv", "json": "json", "markdown": "md", "dot": "dot"}
FUTURE = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: future}
spec:
  podSelector: {matchLabels: {app: cart}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: nobody}}}]
    ports: [{port: 99}]
  - from: [{namespaceSelector: {}}]
    ports: [{port: 5}]
  - from: [{ipBlock: {cidr: 203.0.113.0/24}}]
    ports: [{port: 6, protocol: UDP}]
"""


def listed(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The output of list; the exit code is 0."""
    assert run(["list", *arguments]) == 0
    return capfd.readouterr().out


def listed_json(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document, which matches its schema."""
    value: dict[str, Any] = json.loads(listed(capfd, *arguments, "--format", "json"))
    jsonschema.Draft202012Validator(SCHEMA).validate(value)
    return value


def without_versions(document: str) -> str:
    """The document without fields that depend on the installed solver."""
    named = re.sub(r"z3 \d[\d.]*", "z3 VERSION", document)
    return re.sub(r'("name": "z3",\s+"version": ")[^"]*', r"\1VERSION", named)


@pytest.mark.parametrize("form", ENDINGS)
def test_the_online_shop_is_listed_as_written(
    form: str,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    relative = ["-f", "examples/online-shop/policies", "--cluster", "examples/online-shop/cluster"]
    shown = listed(capfd, *relative, "--exposure", "--format", form)
    path = GOLDEN / f"online-shop.{ENDINGS[form]}"
    if request.config.getoption("--update-golden"):
        path.write_text(without_versions(shown))
    assert without_versions(shown) == path.read_text()


def test_the_picture_has_every_group_and_connection(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "shop.svg"
    listed(capfd, *INPUT, "--format", "svg", "-o", str(target))
    picture = ElementTree.parse(target).getroot()
    value = listed_json(capfd, *INPUT)
    kinds = [g.get("class") for g in picture.iter("{http://www.w3.org/2000/svg}g")]
    assert kinds.count("edge") == len(value["connections"])
    used = {end for each in value["connections"] for end in (each["from"], each["to"])}
    assert kinds.count("node") == len(used)


def test_without_graphviz_no_picture_is_begun(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "shop.svg"
    assert run(["list", *INPUT, "--format", "svg", "-o", str(target)]) == 3
    assert "apt install graphviz" in capfd.readouterr().err
    assert not target.exists()


def test_a_failure_of_graphviz_leaves_no_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "dot"
    tool.write_text("#!/bin/sh\necho '<svg>'; echo broken >&2; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    target = tmp_path / "shop.svg"
    assert run(["list", *INPUT, "--format", "svg", "-o", str(target)]) == 3
    assert "broken" in capfd.readouterr().err
    assert not target.exists()


def test_csv_has_a_row_for_each_range(capfd: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(listed(capfd, *INPUT, "--format", "csv"))))
    value = listed_json(capfd, *INPUT)
    assert len(rows) == sum(len(each["ranges"]) for each in value["connections"])
    database = [row for row in rows if "shop/orders-db" in row["destination_members"].split()]
    assert "shop/orders" in database[-1]["source_members"].split()
    assert {(row["protocol"], row["ports"]) for row in database} == {
        ("TCP", "5432"),
        ("TCP", "9187"),
    }


def test_the_counts_of_a_listing_match_its_connections(capfd: pytest.CaptureFixture[str]) -> None:
    value = listed_json(capfd, *INPUT)
    pairs = {(each["from"], each["to"]) for each in value["connections"]}
    assert value["counts"]["connected_pairs"] == len(pairs)
    cut = listed_json(capfd, *INPUT, "--limit", "3")
    assert len({(each["from"], each["to"]) for each in cut["connections"]}) == 3
    assert cut["omitted"] == len(pairs) - 3
    assert cut["counts"] == value["counts"]


def test_a_focus_names_an_end_in_each_connection(capfd: pytest.CaptureFixture[str]) -> None:
    value = listed_json(capfd, *INPUT, "--focus", "shop/cart")
    focused = {group["group"] for group in value["groups"] if group["focus"]}
    assert [group["members"] for group in value["groups"] if group["focus"]] == [["shop/cart"]]
    assert value["connections"]
    for each in value["connections"]:
        assert {each["from"], each["to"]} & focused


@pytest.mark.parametrize(
    ("focus", "members"),
    [
        ("payments/*", "payments/ledger"),
        ("203.0.113.64/26", "203.0.113.64/26"),
        ("2001:db8:51::1", "2001:db8:51::1"),
        ("node/node-1", "the address of node node-1"),
    ],
)
def test_a_focus_may_be_a_namespace_a_network_or_a_node(
    focus: str, members: str, capfd: pytest.CaptureFixture[str]
) -> None:
    value = listed_json(capfd, *INPUT, "--focus", focus)
    found = [name for group in value["groups"] if group["focus"] for name in group["members"]]
    assert members in found


@pytest.mark.parametrize(
    ("focus", "hint"),
    [
        ("shop/crat", "did you mean shop/cart?"),
        ("cart", "did you mean shop/cart?"),
        ("shop", "did you mean shop/*?"),
        ("qqq/zzz", "namespace/name of a pod or workload"),
        ("10.0.0.0/33", "namespace/name of a pod or workload"),
    ],
)
def test_an_unknown_focus_is_refused_with_the_nearest(
    focus: str, hint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", *INPUT, "--focus", focus]) == 2
    said = capfd.readouterr().err
    assert "PC0912" in said
    assert hint in said


def test_exposure_lists_peers_that_do_not_exist_yet(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "future.yaml"
    path.write_text(FUTURE)
    focus = ["--exposure", "--focus", "shop/cart"]
    value = listed_json(capfd, "-f", str(path), *CLUSTER, *focus)
    ingress, egress = value["exposure"]
    assert ingress["isolated"]
    assert [place["words"] for place in ingress["isolated_by"]] == ["shop/future"]
    assert ingress["every_pod"] == "TCP 5"
    assert ingress["outside"] == [{"who": "203.0.113.0/24", "services": "UDP 6"}]
    (potential,) = ingress["potential"]
    assert potential["who"] == "pods [shop: app=nobody]"
    assert potential["services"] == "TCP 99"
    assert (potential["place"]["file"], potential["place"]["line"]) == (str(path), 7)
    assert not egress["isolated"]
    assert egress["every_pod"] == "any service"


def test_a_pod_that_may_be_anywhere_is_listed_by_place(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policies.yaml").write_text(FUTURE.replace("203.0.113.0/24", "10.0.0.0/8"))
    cluster = tmp_path / "cluster.yaml"
    workload = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{namespace: shop, name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: c, image: c}}]}}
"""
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    cluster.write_text("---\n".join([space, *(workload.format(name=n) for n in ("cart", "web"))]))
    given = ["-f", str(tmp_path / "policies.yaml"), "--cluster", str(cluster)]
    shown = listed(capfd, *given)
    assert "shop/web at 10.0.0.0/8" in shown
    assert "one query over the whole formula" in shown
    said = listed(capfd, *given, "--pod-cidr", "10.1.0.0/16", "--pod-cidr", "fd00::/64")
    assert "shop/web at" not in said


def test_without_a_cluster_there_is_nothing_to_list(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "-f", str(SHOP / "policies")]) == 2
    assert "--cluster" in capfd.readouterr().err
