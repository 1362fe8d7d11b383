# SPDX-License-Identifier: Apache-2.0
"""`policyc eval`: the options that say how policies are read, nodes and source ports as given."""

import json
from pathlib import Path
from typing import Any

import pytest

from policyc.compiler.cli.main import run

POLICY = """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: edge}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {}}
  egress:
  - {name: names, action: Accept, to: [%s]}
  - {name: rest, action: Deny, to: [{networks: [0.0.0.0/0]}]}
"""
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}, {type: InternalIP, address: "2001:db8::1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: n1}
status: {podIP: 10.0.0.1}
"""
DOMAINS, NODES = "{domainNames: [example.com]}", "{nodes: {matchLabels: {zone: a}}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    return tmp_path


def given(folder: Path, peer: str) -> list[str]:
    (folder / "p.yaml").write_text(POLICY % peer)
    return ["eval", "-f", str(folder / "p.yaml"), "--cluster", str(folder / "c.yaml")]


FLOW = ("shop/web", "192.0.2.1", "tcp/22")


def test_an_unsupported_field_is_an_error_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(folder, DOMAINS), *FLOW]) == 2
    shown = capsys.readouterr().err
    assert "p.yaml:9:41: error[PC1604]: spec.egress[0].to[0].domainNames" in shown


def test_with_unsupported_deny_its_verdict_is_unknown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(folder, DOMAINS), *FLOW, "--unsupported", "deny"]) == 0
    shown = capsys.readouterr()
    assert "TCP 22 (IPv4): unknown" in shown.out
    assert "warning[PC1605]" in shown.err and "warning[PC0711]" in shown.err


def test_the_standard_channel_has_no_nodes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(folder, NODES), *FLOW, "--channel", "standard"]) == 2
    assert 'unknown field "spec.egress[0].to[0].nodes"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        ("node/n1", "allow"),
        ("192.0.2.1", "allow"),
        ("192.0.2.2", "deny"),
        ("2001:db8::2", "no address family"),
    ],
)
def test_a_node_is_an_end_by_name_and_by_address(
    end: str, verdict: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run([*given(folder, NODES), "shop/web", end, "tcp/22", "--format", "json"])
    shown = capsys.readouterr().out
    if code == 2:
        assert verdict in json.loads(shown)["diagnostics"][0]["message"]
        return
    answer = json.loads(shown)
    assert answer["verdict"] == verdict
    assert answer["egress"]["rule"]["policy"] == "ClusterNetworkPolicy edge"


def test_an_unknown_node_is_an_input_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(folder, NODES), "shop/web", "node/n2", "tcp/22"]) == 2
    shown = capsys.readouterr().err
    assert "dst n2 is not a node of the cluster" in shown and "`node/n1`" in shown


BAD_PORTS: list[tuple[list[str], str]] = [
    (["--source-port", "0"], "source port 0 is not in 1 to 65535"),
    (["--source-port", "x"], "is not a valid integer"),
]


@pytest.mark.parametrize(("option", "message"), BAD_PORTS)
def test_a_source_port_is_a_port(
    option: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(folder, NODES), *FLOW, *option]) == 2
    assert message in capsys.readouterr().err


def test_a_source_port_means_nothing_for_icmp(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "f.csv").write_text("src,dst,protocol,source_port\nshop/web,192.0.2.1,icmp,7\n")
    assert run([*given(folder, NODES), "--flows", str(folder / "f.csv")]) == 2
    assert "protocol icmp has no ports" in capsys.readouterr().err
    assert run([*given(folder, NODES), "--flows", "f", "--source-port", "7"]) == 2


@pytest.mark.parametrize("value", ["beta", "", "Standard"])
def test_options_have_fixed_values(value: str, folder: Path) -> None:
    for option in ("--channel", "--profile", "--unsupported"):
        arguments: list[Any] = [*given(folder, NODES), *FLOW, option, value]
        assert run(arguments) == 2
