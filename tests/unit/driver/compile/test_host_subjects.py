# SPDX-License-Identifier: Apache-2.0
"""Bundles of policies that guard nodes: what is in them, and what is as it was."""

import json
from ipaddress import ip_address
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.compile.host_subjects import (
    NO_HOSTS,
    Hosts,
)
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InternalError
from policyc.ir.peers import ANY_PEER, NodePeer, Peer
from policyc.ir.policy import (
    ALWAYS,
    NEVER,
    Action,
    AnyService,
    Direction,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.selectors import EVERY_ENDPOINT, Condition
from policyc.ir.spans import NOWHERE, Origin
from policyc.runtime.bundle.bundle import read_bundle
from policyc.runtime.endpoints.endpoints import (
    EndpointsFile,
    NodeRecord,
)
from policyc.runtime.errors import InputError
from policyc.runtime.policy.host_policy import (
    groups_of,
    host_subject,
    require_uplinks,
)
from policyc.runtime.policy.tables import PolicyTables

HOSTS = """\
apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {name: n1, labels: {role: edge}}
spec: {node: node-1, interfaceName: eth0, expectedIPs: [192.0.2.1]}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: edge}
spec:
  selector: role == 'edge'
  ingress: [{action: Allow, protocol: TCP, destination: {ports: [80]}}]
"""
CILIUM = """\
apiVersion: cilium.io/v2
kind: CiliumClusterwideNetworkPolicy
metadata: {name: nodes}
spec:
  nodeSelector: {}
  ingress: [{fromEntities: [cluster]}]
"""
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: node-1, containers: [{name: c, image: i}]}
status: {phase: Running, podIP: 10.0.0.5, podIPs: [{ip: 10.0.0.5}]}
"""
NODE = NodeRecord("node-1", {"zone": "a"}, (ip_address("192.0.2.1"),))


def written(folder: Path, text: str, *options: str) -> Path:
    (folder / "policy.yaml").write_text(text)
    command = ["compile", "-f", str(folder / "policy.yaml"), "-o", str(folder / "out")]
    assert run([*command, "--backend", "llvm", *options]) == 0
    return folder / "out"


def test_a_bundle_names_the_nodes_under_host_policy(tmp_path: Path) -> None:
    bundle = read_bundle(written(tmp_path, HOSTS))
    found = host_subject(bundle, EndpointsFile("node-1", (), (NODE,)))
    assert found is not None
    assert (found.name, found.labels, found.interface) == ("n1", {"role": "edge"}, "eth0")
    assert found.has_failsafes
    assert found.record(NODE.addresses[0]).node_labels == {"zone": "a"}
    assert host_subject(bundle, EndpointsFile("node-2", ())) is None


def test_cilium_host_policy_selects_every_node_and_has_no_failsafe_ports(tmp_path: Path) -> None:
    bundle = read_bundle(written(tmp_path, CILIUM))
    found = host_subject(bundle, EndpointsFile("node-7", (), (NodeRecord("node-7", {}, ()),)))
    assert found is not None
    assert (found.name, found.has_failsafes, found.failsafes.inbound) == ("node-7", False, ())


def test_a_node_with_unknown_labels_is_an_error(tmp_path: Path) -> None:
    bundle = read_bundle(written(tmp_path, CILIUM))
    with pytest.raises(InputError, match="has no labels of it") as refused:
        host_subject(bundle, EndpointsFile("node-7", (), (NODE,)))
    assert "under `nodes`" in refused.value.hint


def test_without_host_policies_there_is_no_hosts_json(tmp_path: Path) -> None:
    policies = HOSTS.split("---\n")[1]
    assert not (written(tmp_path, policies) / "hosts.json").exists()


def test_the_policies_in_a_bundle_are_those_that_were_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = written(tmp_path, HOSTS)
    assert run(["equiv", str(bundle), str(tmp_path / "policy.yaml")]) == 0
    (tmp_path / "open.yaml").write_text(HOSTS.replace("[80]", "[81]"))
    assert run(["equiv", str(bundle), str(tmp_path / "open.yaml")]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("how", ["--node", "--all-nodes"])
def test_a_bundle_of_one_node_has_its_host_policies(tmp_path: Path, how: str) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    cluster = ("--cluster", str(tmp_path / "cluster.yaml"))
    if how == "--node":
        out = written(tmp_path, HOSTS, *cluster, "--node", "node-1")
    else:
        out = written(tmp_path, HOSTS, *cluster, "--all-nodes") / "nodes" / "node-1"
    assert json.loads((out / "hosts.json").read_text())["interfaces"][0]["node"] == "node-1"
    bundle = read_bundle(out)
    found = host_subject(bundle, EndpointsFile("node-1", (), (NODE,)))
    assert found is not None
    place = PolicyTables(bundle).place_host(
        found.record(NODE.addresses[0]), NODE, NODE.addresses[0]
    )
    assert all(place.values()), place


def test_a_host_endpoint_among_the_clusters_objects_counts(tmp_path: Path) -> None:
    host, policy = HOSTS.split("---\n")
    (tmp_path / "cluster.yaml").write_text(f"{CLUSTER}---\n{host}")
    bundle = written(tmp_path, policy, "--cluster", str(tmp_path / "cluster.yaml"))
    assert host_subject(read_bundle(bundle), EndpointsFile("node-1", (), (NODE,)))


def test_a_second_run_with_a_cache_has_the_same_hosts(tmp_path: Path) -> None:
    cache = ("--cache", str(tmp_path / "cache"))
    first = {p.name: p.read_bytes() for p in written(tmp_path, HOSTS, *cache).glob("*.json")}
    again = {p.name: p.read_bytes() for p in written(tmp_path, HOSTS, *cache).glob("*.json")}
    assert "hosts.json" in first and again == first
    changed = written(tmp_path, HOSTS.replace("role: edge", "role: core"), *cache)
    assert json.loads((changed / "hosts.json").read_text())["interfaces"][0]["labels"] == {
        "role": "core"
    }


@pytest.mark.parametrize(
    ("uplinks", "problem"),
    [
        ((), "without an uplink nothing enforces"),
        (("eth1",), "has host policy for eth0 of this node"),
        (("eth1", "eth0"), ""),
    ],
)
def test_a_node_under_host_policy_needs_its_uplinks(
    tmp_path: Path, uplinks: tuple[str, ...], problem: str
) -> None:
    host = host_subject(read_bundle(written(tmp_path, HOSTS)), EndpointsFile("node-1", ()))
    assert host is not None
    if problem:
        with pytest.raises(InputError, match=problem) as refused:
            require_uplinks(host, uplinks)
        assert refused.value.hint
    else:
        require_uplinks(host, uplinks)


def test_link_local_addresses_share_an_endpoint() -> None:
    given = [ip_address(a) for a in ("192.0.2.1", "2001:db8::1", "fe80::1", "fe80::2")]
    assert list(groups_of(given)) == [(given[0],), (given[1],), (given[2], given[3])]
    assert list(groups_of(given[:1])) == [(given[0],)]


def _policy(own: Peer, hosts: Condition) -> PolicySet:
    rule = Rule(Action.ALLOW, (), (AnyService(),), Origin(NOWHERE, ""), own=own)
    policy = Policy(
        "Some", "", "p", EVERY_ENDPOINT, frozenset(Direction), (rule,), (), Origin(NOWHERE, ""),
        hosts=hosts,
    )  # fmt: skip
    return PolicySet((Tier("t", TierMode.FIRST_MATCH, Action.DENY, (policy,)),))


def test_lowering_without_hosts_changes_no_policy() -> None:
    given = _policy(NodePeer(), NEVER)
    assert NO_HOSTS.lowering.run(given, Report()) == given
    (tier,) = NO_HOSTS.lowering.run(_policy(ANY_PEER, ALWAYS), Report()).tiers
    assert tier.policies[0].hosts == NEVER
    assert tier.policies[0].subject == EVERY_ENDPOINT


def test_a_node_condition_on_a_host_is_an_internal_error() -> None:
    every_node = Hosts(every_node=True)
    with pytest.raises(InternalError, match="its subject is a node"):
        every_node.lowering.run(_policy(NodePeer(), ALWAYS), Report())
