# SPDX-License-Identifier: Apache-2.0
"""`policyc snapshot` and `kubectl policyc`, with a kubectl that answers from recorded JSON."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from policyc.compiler.cli.kubectl_plugin import plugin
from tests.end_to_end.command import policyc_here
from tests.end_to_end.live_cluster import (
    ADMIN,
    FROM_FRONT,
    POLICY,
    SECRET,
    network_policy,
    small_cluster,
)
from tests.fake_kubectl import FORBIDDEN, FakeKubectl

WRITTEN = """\
# policyc snapshot
---
apiVersion: v1
kind: Pod
metadata:
  labels:
    app: tool
  name: tool
  namespace: dev
  ownerReferences:
  - apiVersion: apps/v1
    kind: ReplicaSet
    name: tool-rs
spec:
  containers:
  - name: main
    ports:
    - containerPort: 8080
      name: http
      protocol: TCP
  nodeName: n1
  serviceAccountName: default
status:
  hostIP: "192.0.2.1"
  hostIPs:
  - ip: "192.0.2.1"
  phase: Running
  podIP: "10.0.0.4"
  podIPs:
  - ip: "10.0.0.4"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """The cluster, and its kubectl on the PATH."""
    made = small_cluster(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(made.folder), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    return made


def kubectl_policyc(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`kubectl policyc` with these arguments."""
    return policyc_here(*arguments, stdin=stdin, program=plugin)


def files_of(folder: Path) -> dict[str, str]:
    """The texts of a directory by their names."""
    found = sorted(each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_text() for each in found}


def test_a_snapshot_has_what_policies_can_distinguish_and_nothing_else(fake: FakeKubectl) -> None:
    done = policyc_here("snapshot", "-o", "out", "--context", "c1", "--kubeconfig", "k")
    assert done.returncode == 0, done.stderr
    counts = "2 Namespace, 1 Node, 3 Pod, 1 Service, 1 ServiceAccount"
    assert done.stdout == f"wrote out/cluster: {counts}\nwrote out/policies: 1 NetworkPolicy\n"
    files = files_of(Path("out"))
    assert list(files) == [
        *(
            f"cluster/{n}.yaml"
            for n in ("namespaces", "nodes", "pods", "serviceaccounts", "services")
        ),
        "policies/networkpolicies.networking.k8s.io.yaml",
    ]
    assert files["cluster/pods.yaml"].startswith(WRITTEN)
    assert not [name for name, text in files.items() if SECRET in text]
    assert 'team: "1e3"' in files["cluster/namespaces.yaml"]
    (policy,) = yaml.safe_load_all(files["policies/networkpolicies.networking.k8s.io.yaml"])
    live = network_policy("web", podSelector={"matchLabels": {"app": "web"}}, ingress=FROM_FRONT)
    assert policy == {
        **{name: live[name] for name in ("apiVersion", "kind", "spec")},
        "metadata": {"name": "web", "namespace": "shop"},
    }
    calls = fake.calls()
    assert all(each.startswith("--context=c1 --kubeconfig=k get ") for each in calls)
    assert not [each for each in calls if "secrets" in each or "configmaps" in each]
    assert all("--chunk-size=500" in each for each in calls if "--raw" not in each)


def test_commands_accept_a_snapshot(fake: FakeKubectl) -> None:
    assert policyc_here("snapshot", "-o", "out", "-A").returncode == 0
    for cluster in ("out/cluster", "out"):
        done = policyc_here(
            "explain", "-f", "out/policies", "--cluster", cluster, "dev/tool", "shop/web", "tcp/80"
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0].endswith(": deny")


def test_a_second_snapshot_has_the_same_bytes_in_any_order_of_lists(fake: FakeKubectl) -> None:
    assert policyc_here("snapshot", "-o", "out").returncode == 0
    before = files_of(Path("out"))
    for resource in ("pods.v1.", "namespaces.v1."):
        fake.recorded[resource]["items"].reverse()
    fake.start()
    assert policyc_here("snapshot", "-o", "out").returncode == 0
    assert files_of(Path("out")) == before
    assert sorted(each.name for each in Path().iterdir()) == ["bin", "out"]


def test_one_namespace_is_read_alone_and_a_note_says_so(fake: FakeKubectl) -> None:
    done = policyc_here("snapshot", "-o", "out", "-n", "dev")
    assert done.returncode == 0
    assert "namespace dev alone: pods of other namespaces are not known" in done.stderr
    assert "wrote out/cluster: 1 Namespace, 1 Node, 1 Pod\n" in done.stdout
    assert policyc_here("snapshot", "-o", "x", "-n", "dev", "-A").returncode == 2


def test_what_is_forbidden_is_an_error_or_a_loud_note(fake: FakeKubectl) -> None:
    fake.serve("nodes.v1.", FORBIDDEN)
    fake.start()
    done = policyc_here("snapshot", "-o", "out")
    assert done.returncode == 3
    assert "error: the cluster refuses to list nodes\nhelp:" in done.stderr
    assert not Path("out").exists()
    done = policyc_here("snapshot", "-o", "out", "--skip-forbidden")
    assert done.returncode == 0
    assert "warning: forbidden, and not in the snapshot: nodes; answers may be" in done.stderr
    assert not Path("out/cluster/nodes.yaml").exists()


def test_any_other_failure_stops_the_snapshot(fake: FakeKubectl) -> None:
    fake.serve("services.v1.", "E1129 noise\nerror: the server is currently unable to handle it")
    fake.start()
    done = policyc_here("snapshot", "-o", "out", "--skip-forbidden")
    assert done.returncode == 3
    assert "kubectl get services.v1. --all-namespaces: error: the server is" in done.stderr
    assert not Path("out").exists()


def test_a_missing_kubectl_is_named(fake: FakeKubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = policyc_here("snapshot", "-o", "out")
    assert done.returncode == 3
    assert done.stderr.startswith(
        "policyc: error: kubectl is not installed; the cluster was not read"
    )


def test_a_directory_with_other_files_is_left_as_it_is(fake: FakeKubectl) -> None:
    for name in ("out/notes.txt", "out/cluster/mine.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("mine")
        done = policyc_here("snapshot", "-o", "out")
        assert done.returncode == 2
        assert "error[PC0921]: out exists and is not a snapshot; nothing was written" in done.stderr
        assert Path(name).read_text() == "mine"
        Path(name).unlink()
    assert policyc_here("snapshot", "-o", "out").returncode == 0


def test_policies_of_a_version_without_a_reader_stop_the_snapshot(fake: FakeKubectl) -> None:
    newer = "policy.networking.k8s.io/v1"
    fake.serve_policies(newer, "ClusterNetworkPolicy", "clusternetworkpolicies", [], False)
    fake.start()
    assert policyc_here("snapshot", "-o", "out").returncode == 0
    one = [{"metadata": {"name": "a"}, "spec": {}}]
    fake.serve("clusternetworkpolicies.v1.policy.networking.k8s.io", one)
    fake.start()
    done = policyc_here("snapshot", "-o", "out")
    assert done.returncode == 3
    assert f"policyc cannot read: 1 ClusterNetworkPolicy of {newer}" in done.stderr


def test_kinds_that_may_change_verdicts_are_named(fake: FakeKubectl) -> None:
    fake.serve_policies("cilium.io/v2", "CiliumLocalRedirectPolicy", "redirects", [])
    fake.serve_policies("cilium.io/v2", "CiliumNode", "ciliumnodes", [], False)
    fake.start()
    done = policyc_here("snapshot", "-o", "out")
    note = "not read, and may change verdicts: CiliumLocalRedirectPolicy.cilium.io"
    assert f"policyc: {note}\n" in done.stderr


def test_the_plugin_lists_explains_and_checks_the_cluster_s_own_policies(fake: FakeKubectl) -> None:
    done = kubectl_policyc("--context", "c1", "list", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    done = kubectl_policyc("-A", "explain", "dev/tool", "shop/web", "tcp/80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(": deny")
    done = kubectl_policyc("check")
    assert done.returncode == 0, done.stderr
    wider = network_policy("web", ingress=[{}])
    del wider["status"]
    Path("open.yaml").write_text(yaml.safe_dump(wider))
    done = kubectl_policyc("explain", "-f", "open.yaml", "dev/tool", "shop/web", "tcp/80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith(": allow")  # the policies of -f alone
    assert all(each.startswith("--context=c1") for each in fake.calls()[: len(fake.calls()) // 5])


def test_diff_of_a_file_shows_what_its_application_changes(fake: FakeKubectl) -> None:
    """`web` is replaced, not dropped: `other` stays, and the namespace is the one of the context."""
    fake.recorded["view"] = {"contexts": [{"context": {"namespace": "shop"}}]}
    listed = fake.recorded["networkpolicies.v1.networking.k8s.io"]["items"]
    fake.serve("networkpolicies.v1.networking.k8s.io", [*listed, network_policy("other")])
    fake.start()
    spec = {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": FROM_FRONT}
    same = {
        "apiVersion": POLICY,
        "kind": "NetworkPolicy",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    Path("web.yaml").write_text(yaml.safe_dump(same))
    done = kubectl_policyc("diff", "web.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    wider = {**same, "spec": {**spec, "ingress": [{}]}}
    done = kubectl_policyc("diff", "--format", "json", "-", stdin=yaml.safe_dump(wider))
    assert done.returncode == 1, done.stderr
    assert "dev/tool" in done.stdout


def test_an_admin_policy_of_a_file_replaces_that_of_the_cluster(fake: FakeKubectl) -> None:
    spec = {
        "priority": 1,
        "subject": {"namespaces": {}},
        "ingress": [{"action": "Deny", "from": [{"namespaces": {}}]}],
    }
    kind = "AdminNetworkPolicy"
    admin = {"apiVersion": ADMIN, "kind": kind, "metadata": {"name": "all"}, "spec": spec}
    fake.serve_policies(ADMIN, kind, "adminnetworkpolicies", [admin], False)
    fake.start()
    Path("all.yaml").write_text(yaml.safe_dump(admin))
    done = kubectl_policyc("-n", "shop", "diff", "all.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_snapshot_in_the_plugin_takes_the_options_before_it(fake: FakeKubectl) -> None:
    done = kubectl_policyc("--context", "c2", "-n", "dev", "snapshot", "-o", "out")
    assert done.returncode == 0, done.stderr
    assert "1 Pod" in done.stdout
    assert all(each.startswith("--context=c2 ") for each in fake.calls())


def test_other_commands_and_help_read_no_cluster(fake: FakeKubectl) -> None:
    assert kubectl_policyc("schema", "diff-v1").returncode == 0
    assert "Usage:" in kubectl_policyc("check", "--help").stdout
    assert "COMMAND" in kubectl_policyc().stdout
    assert kubectl_policyc("no-such-command").returncode == 2
    refused = kubectl_policyc("check", "--fix")
    assert refused.returncode == 2
    assert "--fix rewrites files: name them with -f" in refused.stderr
    assert fake.calls() == []
