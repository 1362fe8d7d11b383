# SPDX-License-Identifier: Apache-2.0
"""A node without a Node object is an external address; a warning says so if a policy reads nodes."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run

ADMIN = (
    "apiVersion: policy.networking.k8s.io/v1alpha1\nkind: AdminNetworkPolicy\nmetadata: {name: a}\n"
    "spec:\n  priority: 1\n  subject: {namespaces: {}}\n"
    "  egress: [{name: x, action: Deny, to: [{nodes: {matchLabels: {role: cp}}}]}]\n"
)
CILIUM = (
    "apiVersion: cilium.io/v2\nkind: CiliumClusterwideNetworkPolicy\nmetadata: {name: a}\nspec: "
)
WORLD = CILIUM + "{endpointSelector: {}, ingress: [{fromEntities: [world]}]}\n"
CIDRS = CILIUM + "{endpointSelector: {}, egress: [{toCIDR: [0.0.0.0/0]}]}\n"
HOSTS = CILIUM + "{nodeSelector: {}, ingress: [{}]}\n"
PODS_ONLY = CILIUM + "{endpointSelector: {}, ingress: [{fromEndpoints: [{}]}]}\n"
EXTENDED = (
    "apiVersion: policyc.dev/v1alpha1\nkind: ExtendedPolicy\nmetadata: {name: e}\nspec:\n"
    '  tier: 500\n  appliesTo: APPLIES\n  rules: "ingress:\\n  deny\\n"\n'
)
BY_LABEL = EXTENDED.replace("APPLIES", 'node.role == "cp"')
BY_NAME = EXTENDED.replace("APPLIES", 'node == "n1"')
CALICO = (
    "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: g}\n"
    "spec: {selector: all(), types: [Egress], egress: [{action: Deny}]}\n"
)
POD = (
    "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default},"
    " spec: {nodeName: NODE}, status: {podIP: 10.0.0.5}}\n"
)
PODS = POD.replace("NODE", "n1") + POD.replace("NODE", "n2").replace("p,", "q,").replace(".5", ".6")
DEPLOYMENT = (
    "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: default}, spec:"
    " {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {}}}}\n"
)


def node(name: str, status: str = "{addresses: [{type: InternalIP, address: 192.0.2.1}]}") -> str:
    return f"---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {status}}}\n"


def shown_by(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(command) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("policy", "cluster", "said"),
    [
        (ADMIN, PODS, "no Node object for n1, n2\n"),
        (ADMIN, PODS + node("n1"), "no Node object for n2\n"),
        (ADMIN, DEPLOYMENT, "no Node object\n"),
        (WORLD, PODS, "no Node object for n1, n2\n"),
        (CIDRS, PODS, "no Node object for n1, n2\n"),
        (HOSTS, PODS, "no Node object for n1, n2\n"),
        (BY_LABEL, PODS, "no Node object for n1, n2\n"),
        (ADMIN, PODS + node("n1") + node("n2", "{}"), "no address of n2 is known\n"),
        (BY_LABEL, PODS + node("n1") + node("n2", "{}"), ""),
        (ADMIN, PODS + node("n1") + node("n2"), ""),
        (ADMIN, DEPLOYMENT + node("n1"), ""),
        (BY_NAME, PODS, ""),
        (PODS_ONLY, PODS, ""),
        (CALICO, PODS, ""),
    ],
)
def test_missing_nodes_are_reported_once_if_rules_read_nodes(
    policy: str, cluster: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(policy)
    (tmp_path / "c.yaml").write_text(cluster)
    files = ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]
    shown = shown_by(["eval", *files, "192.0.2.7", "192.0.2.8", "tcp/80"], capsys)
    assert shown.count("warning[PC061") == bool(said)
    assert said in shown


def test_without_a_cluster_no_node_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(ADMIN)
    files = ["-f", str(tmp_path / "p.yaml")]
    assert "PC061" not in shown_by(["eval", *files, "192.0.2.7", "192.0.2.8", "tcp/80"], capsys)


def test_compile_reports_missing_nodes_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.yaml").write_text(ADMIN)
    (tmp_path / "c.yaml").write_text(PODS)
    files = ["-f", str(tmp_path / "p.yaml"), "--cluster", str(tmp_path / "c.yaml")]
    shown = shown_by(["compile", *files, "--emit", "policy-ir"], capsys)
    assert shown.count("warning[PC0611]") == 1
