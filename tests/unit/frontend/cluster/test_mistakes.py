# SPDX-License-Identifier: Apache-2.0
"""Cluster objects: a slip of the pen is an error, a field of no interest is passed over."""

from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.frontend import ObjectsSource, read_cluster

HEAD = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ns}, "
DEPLOYMENT = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, "
CASES = [
    ("{apiVersion: v1, kind: Pod, metadata: {name: a, lables: {}}}", "metadata.lables", "labels"),
    (
        "{apiVersion: v1, kind: Pod, metadata: {name: a, namspace: x}}",
        "metadata.namspace",
        "namespace",
    ),
    (
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, label: {}}}",
        "metadata.label",
        "labels",
    ),
    (HEAD + "spec: {hostNetwrok: true}}", "spec.hostNetwrok", "hostNetwork"),
    (HEAD + "spec: {nodeNmae: n}}", "spec.nodeNmae", "nodeName"),
    (HEAD + "status: {podIps: []}}", "status.podIps", "podIPs"),
    (HEAD + "sepc: {}}", "sepc", "spec"),
    (
        HEAD + "spec: {containers: [{ports: [{name: http, containerPrt: 80}]}]}}",
        "spec.containers[0].ports[0].containerPrt",
        "containerPort",
    ),
    (DEPLOYMENT + "spec: {templte: {}}}", "spec.templte", "template"),
    (
        DEPLOYMENT + "spec: {template: {metadata: {lables: {}}}}}",
        "spec.template.metadata.lables",
        "labels",
    ),
]


def ask(text: str, folder: Path) -> int:
    (folder / "p.yaml").write_text("# no policies\n")
    (folder / "c.yaml").write_text(text)
    files = ["-f", str(folder / "p.yaml"), "--cluster", str(folder / "c.yaml")]
    return run(["eval", *files, "192.0.2.1", "192.0.2.2", "tcp/80"])


@pytest.mark.parametrize(("text", "where", "near"), CASES)
def test_a_misspelt_field_is_an_error(
    text: str, where: str, near: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(text, tmp_path) == 2
    shown = capsys.readouterr().err
    assert f'error[PC0202]: unknown field "{where}"' in shown
    assert f"did you mean `{near}`?" in shown


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "spec: {hostname: x, hostPID: true, nodeSelector: {}, fancyNew: 1, "
        "ephemeralContainers: [{ports: 3}], containers: [{image: x, name: c}]}}",
        HEAD + "status: {phase: Running, hostIP: 10.9.0.1, podIP: 10.0.0.1, "
        'podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}], qosClass: Burstable, startTime: x}}',
        "{apiVersion: v1, kind: Namespace, metadata: {name: a, annotations: {}, uid: x}, "
        "spec: {finalizers: [kubernetes]}, status: {phase: Active}}",
    ],
)
def test_other_fields_are_passed_over(text: str, tmp_path: Path) -> None:
    assert ask(text, tmp_path) == 0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (HEAD + "status: {phase: Runing}}", "PC0607"),
        (HEAD + "status: {podIPs: [{ip: 10.0.0.1}, {ip: 10.0.0.2}]}}", "PC0608"),
        (HEAD + "status: {podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.1}]}}", "PC0609"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: A_b}}", "PC0403"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: a.b}}", "PC0403"),
        ("{apiVersion: v1, kind: Namespace, metadata: {name: a.b}}", "PC0403"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {a b: c}}}", "PC0404"),
        ("{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {a: b c}}}", "PC0404"),
        (DEPLOYMENT + "spec: {template: {metadata: {labels: {a: -}}}}}", "PC0404"),
    ],
)
def test_objects_that_the_api_server_refuses(
    text: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(text, tmp_path) == 2
    assert f"error[{code}]" in capsys.readouterr().err


def test_a_manifest_on_the_host_network_has_the_addresses_of_its_node() -> None:
    addresses = [
        {"type": "ExternalIP", "address": "203.0.113.1"},
        {"type": "InternalIP", "address": "10.9.0.1"},
        {"type": "InternalIP", "address": "fd09::1"},
    ]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"addresses": addresses},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"hostNetwork": True, "nodeName": "n1"},
    }
    (endpoint,) = read_cluster([ObjectsSource("here", (node, pod))]).universe.endpoints
    assert endpoint.addresses_known
    assert [str(address) for address in endpoint.addresses] == ["10.9.0.1", "fd09::1"]
