# SPDX-License-Identifier: Apache-2.0
"""Calico's objects beside each other: in -f and --cluster, in the API and its store, staged and live."""

import json
from dataclasses import replace
from typing import Any

import pytest

from policyc.compiler.frontend import read_scenario
from policyc.compiler.frontend.calico.staged import StagedDeletion
from policyc.compiler.frontend.read import ClusterReading, PolicyInput, ReadOptions, read_policies
from policyc.compiler.frontend.yaml.sources import ObjectsSource
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.peers import AddressPeer, leaves
from policyc.ir.policy import Policy
from policyc.ir.universe import HostInterface, Universe

V3, STORE = "projectcalico.org/v3", "crd.projectcalico.org/v1"


def calico(
    kind: str, name: str, version: str = V3, metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    meta = {"name": name, **(metadata or {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def core(kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    meta = {"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, **more}


def together(
    given: list[dict[str, Any]], cluster: list[dict[str, Any]]
) -> tuple[PolicyInput, Universe]:
    """Read as a command does that has both."""
    reading = ClusterReading([ObjectsSource("cluster", tuple(cluster))])
    policies = read_policies(
        [ObjectsSource("policies", tuple(given))], ReadOptions(), reading.services, reading.known
    )
    return policies, reading.finish(policies.policies, policies.found).universe


def findings_of(*objects: dict[str, Any]) -> list[Diagnostic]:
    try:
        _, cluster = read_scenario("x", objects)
    except InputError as wrong:
        return list(wrong.findings)
    return list(cluster.findings)


def codes_of(*objects: dict[str, Any]) -> list[str]:
    return [finding.code for finding in findings_of(*objects)]


def blocks(policy: Policy) -> set[str]:
    """The networks that the policy's ingress rules name."""
    return {
        str(leaf.network)
        for rule in policy.ingress
        for peer in rule.peers
        for leaf in leaves(peer)
        if isinstance(leaf, AddressPeer)
    }


def only_policy(policies: PolicyInput) -> Policy:
    (policy,) = (policy for tier in policies.policies.tiers for policy in tier.policies)
    return policy


BY_LABEL = calico(
    "GlobalNetworkPolicy",
    "p",
    ingress=[{"action": "Allow", "source": {"selector": "set == 'good'"}}],
)
GOOD = {"labels": {"set": "good"}}


def test_network_sets_of_the_cluster_are_found_by_policies_of_f() -> None:
    cluster = [calico("GlobalNetworkSet", "s", metadata=GOOD, nets=["192.0.2.0/24"])]
    policies, _ = together([BY_LABEL], cluster)
    assert blocks(only_policy(policies)) == {"192.0.2.0/24"}
    policies, _ = together([BY_LABEL, *cluster], cluster)  # a snapshot of what was applied
    assert blocks(only_policy(policies)) == {"192.0.2.0/24"}


@pytest.mark.parametrize(
    "kind_and_specs",
    [
        ("GlobalNetworkSet", {"nets": ["192.0.2.0/24"]}, {"nets": ["192.0.3.0/24"]}),
        ("Tier", {"order": 1}, {"order": 2}),
        ("HostEndpoint", {"node": "a", "interfaceName": "*"}, {"node": "b", "interfaceName": "*"}),
    ],
    ids=lambda case: case[0],
)
def test_differing_objects_in_f_and_the_cluster_are_an_error(
    kind_and_specs: tuple[str, dict[str, Any], dict[str, Any]],
) -> None:
    kind, one, other = kind_and_specs
    with pytest.raises(InputError) as raised:
        together([BY_LABEL, calico(kind, "s", **one)], [calico(kind, "s", **other)])
    assert {finding.code for finding in raised.value.findings} == {"PC1228"}


def test_labels_of_the_cluster_s_namespaces_are_read_for_network_sets() -> None:
    source = {"namespaceSelector": "team == 'blue'"}
    policy = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow", "source": source}])
    there = {"namespace": "shop"}
    sets = [calico("NetworkSet", "s", metadata=there, nets=["192.0.2.0/24"])]
    namespace = core("Namespace", "shop", labels={"team": "blue"})
    policies, _ = together([policy], [*sets, namespace])
    assert blocks(only_policy(policies)) == {"192.0.2.0/24"}
    policies, _ = together([policy], sets)
    assert blocks(only_policy(policies)) == set()
    assert [finding.code for finding in policies.findings] == ["PC1222"]


def test_only_the_name_of_a_namespace_needs_no_object() -> None:
    source = {"namespaceSelector": "projectcalico.org/name == 'shop'"}
    policy = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow", "source": source}])
    there = {"namespace": "shop"}
    policies, _ = together(
        [policy, calico("NetworkSet", "s", metadata=there, nets=["192.0.2.1"])], []
    )
    assert blocks(only_policy(policies)) == {"192.0.2.1/32"}
    assert not policies.findings


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        ({"selector": "set == 'good'"}, []),
        ({"namespaceSelector": "team != 'red'"}, ["PC1231"]),
        ({"namespaceSelector": "all()"}, []),
        ({"namespaceSelector": "global()"}, []),
        ({"serviceAccounts": {"selector": "!has(x)"}}, ["PC1231"]),
        ({"serviceAccounts": {"selector": "has(x)"}}, []),
        ({"selector": "has(set)", "notSelector": "app == 'a'"}, ["PC1232"]),
        ({"selector": "has(set)", "notSelector": "set == 'good'"}, []),
        ({"notSelector": "app == 'a'"}, []),
    ],
)
def test_matches_of_calico_beside_pods_are_warnings(
    source: dict[str, Any], warned: list[str]
) -> None:
    policy = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow", "source": source}])
    sets = calico("GlobalNetworkSet", "s", metadata=GOOD, nets=["192.0.2.0/24"])
    policies, _ = together([policy], [sets])
    assert [finding.code for finding in policies.findings] == warned
    assert all("GlobalNetworkSet s" in finding.message for finding in policies.findings)
    assert bool(blocks(only_policy(policies))) == (bool(warned) or source in ALSO_FIND)


@pytest.mark.parametrize(
    ("pods_alone", "warned"), [({}, ["PC1233"]), ({"namespaceSelector": "all()"}, [])]
)
def test_apply_on_forward_changes_nothing_for_pods(
    pods_alone: dict[str, Any], warned: list[str]
) -> None:
    written = {**BY_LABEL["spec"], **pods_alone}
    policies, _ = together([calico("GlobalNetworkPolicy", "p", **written)], [])
    forwarded = calico("GlobalNetworkPolicy", "p", applyOnForward=True, **written)
    read, _ = together([forwarded], [])
    assert [finding.code for finding in read.findings] == warned
    assert replace(only_policy(read), origin=only_policy(policies).origin) == only_policy(policies)


def test_an_allow_by_the_name_of_a_source_port_is_read_and_allows_nothing() -> None:
    rule = {"action": "Allow", "protocol": "TCP", "source": {"ports": ["http", 80]}}
    policies, _ = together([calico("GlobalNetworkPolicy", "p", ingress=[rule])], [])
    assert [finding.code for finding in policies.findings] == ["PC1605"]
    (found,) = only_policy(policies).ingress
    assert found.peers == () and found.opaque is not None
    assert found.opaque.widest.source_ports is None, "the name may be that of any port"


ALSO_FIND = ({"selector": "set == 'good'"}, {"namespaceSelector": "global()"})
"""Sources that find the network set, and are not warned of."""


@pytest.mark.parametrize("is_in_cluster", [True, False])
def test_a_host_endpoint_applies_to_its_node_from_either_input(is_in_cluster: bool) -> None:
    host = calico("HostEndpoint", "h", metadata=GOOD, node="n1", interfaceName="*")
    node = core("Node", "n1", status={"addresses": [{"type": "InternalIP", "address": "10.9.0.1"}]})
    pod = core("Pod", "p", "shop", spec={"containers": [], "nodeName": "n1"})
    cluster = [node, pod, *([host] if is_in_cluster else [])]
    policies, universe = together([BY_LABEL, *([] if is_in_cluster else [host])], cluster)
    (found,) = universe.nodes
    assert found.host == HostInterface(
        "h", {"set": "good"}, denies_unmatched=True, has_failsafes=True
    )
    assert [str(address) for address in found.addresses] == ["10.9.0.1"]
    assert universe.endpoints[0].its_node == found
    assert only_policy(policies).hosts is not None


def test_a_second_host_endpoint_of_a_node_is_not_supported() -> None:
    (finding,) = findings_of(
        calico("HostEndpoint", "one", node="n", interfaceName="eth0"),
        calico("HostEndpoint", "two", node="n", interfaceName="eth1"),
    )
    assert (finding.code, len(finding.notes)) == ("PC1604", 1)
    assert "a second HostEndpoint of the node n" in finding.message


def stored(labels: object) -> dict[str, Any]:
    return {"annotations": {"projectcalico.org/metadata": json.dumps({"labels": labels})}}


def test_a_dump_of_the_datastore_is_read_as_the_api_object() -> None:
    given = [BY_LABEL, calico("GlobalNetworkSet", "s", metadata=GOOD, nets=["192.0.2.0/24"])]
    dump = [
        calico("GlobalNetworkPolicy", "default.p", STORE, **BY_LABEL["spec"], tier="default"),
        calico("GlobalNetworkSet", "s", STORE, stored({"set": "good"}), nets=["192.0.2.0/24"]),
    ]
    in_api, _ = together(given, [])
    in_store, _ = together(dump, [])
    assert in_api.policies == in_store.policies
    together(given, dump)  # the cluster has no policy that -f has not


def test_one_object_in_the_api_and_in_its_store_is_given_twice() -> None:
    dump = calico("GlobalNetworkPolicy", "default.p", STORE, **BY_LABEL["spec"])
    assert codes_of(BY_LABEL, dump) == ["PC0308"]


@pytest.mark.parametrize(
    "text", ["", "[]", '"x"', "5", '{"labels": []}', '{"labels": {"a": 1}}', "{", "[" * 9999]
)
def test_an_annotation_that_is_not_calico_s_is_an_error(text: str) -> None:
    annotations = {"annotations": {"projectcalico.org/metadata": text}}
    found = codes_of(calico("GlobalNetworkSet", "s", STORE, annotations))
    assert found == (["PC1224"] if text != '{"labels": []}' else [])


def test_staged_policies_are_beside_the_live_ones() -> None:
    live = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow"}])
    staged = [
        calico("StagedGlobalNetworkPolicy", "p", ingress=[{"action": "Deny"}]),
        calico("StagedNetworkPolicy", "q", stagedAction="Learn", egress=[{"action": "Deny"}]),
        calico("StagedKubernetesNetworkPolicy", "r", podSelector={}, stagedAction="Set"),
        calico("StagedNetworkPolicy", "gone", stagedAction="Delete", tier="default"),
        calico("StagedKubernetesNetworkPolicy", "gone", stagedAction="Delete", podSelector={}),
        calico("StagedGlobalNetworkPolicy", "ignored", stagedAction="Ignore"),
        calico("StagedKubernetesNetworkPolicy", "ignored", stagedAction="Ignore"),
    ]
    read, _ = together([live, *staged], [])
    assert only_policy(read).title == "GlobalNetworkPolicy.projectcalico.org p"
    assert [item.policy.title for item in read.staged] == [
        "StagedGlobalNetworkPolicy.projectcalico.org p",
        "StagedNetworkPolicy.projectcalico.org default/q",
        "StagedKubernetesNetworkPolicy.projectcalico.org default/r",
    ]
    assert list(read.found.deletions) == [
        StagedDeletion("NetworkPolicy.projectcalico.org", "default", "gone"),
        StagedDeletion("NetworkPolicy", "default", "gone"),
    ]


def test_a_wrong_staged_kubernetes_policy_is_wrong_as_a_network_policy_is() -> None:
    (finding,) = findings_of(calico("StagedKubernetesNetworkPolicy", "p", podSelector={}, order=5))
    assert (finding.code, finding.path) == ("PC0202", "objects[0].spec.order")


def test_endpoints_have_the_labels_of_their_service_account() -> None:
    spec = {"containers": [], "serviceAccountName": "robot"}
    pods = [core("Pod", "a", "shop", spec=spec), core("Pod", "b", "mail", spec=spec)]
    account = core("ServiceAccount", "robot", "shop", labels={"tier": "back"})
    _, universe = together([BY_LABEL], [*pods, account])
    labels = {end.qualified_name: end.service_account_labels for end in universe.endpoints}
    assert labels == {"shop/a": {"tier": "back"}, "mail/b": {}}


def test_missing_service_accounts_are_reported_if_rules_read_their_labels() -> None:
    source = {"serviceAccounts": {"selector": "has(tier)"}}
    policy = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow", "source": source}])
    subject = calico("GlobalNetworkPolicy", "p", serviceAccountSelector="has(tier)")
    pod = core("Pod", "a", "shop", spec={"containers": [], "serviceAccountName": "robot"})
    for reader in (policy, subject):
        (finding,) = findings_of(reader, pod)
        assert finding.code == "PC1229"
        assert "tier" in finding.message
        assert "shop/robot" in finding.message
        assert not findings_of(reader, pod, core("ServiceAccount", "robot", "shop"))
    by_name = {"serviceAccounts": {"names": ["robot"]}}
    named = calico("GlobalNetworkPolicy", "p", ingress=[{"action": "Allow", "source": by_name}])
    assert not findings_of(named, pod)


def test_missing_namespaces_of_subjects_are_reported() -> None:
    policy = calico("GlobalNetworkPolicy", "p", namespaceSelector="team == 'blue'")
    assert codes_of(policy, core("Pod", "a", "shop")) == ["PC0610"]


def test_calico_s_other_kinds_are_passed_over_unless_they_decide_about_traffic() -> None:
    _, cluster = read_scenario(
        "x", [calico("IPPool", "a", cidr="x"), calico("BGPPeer", "b", STORE)]
    )
    assert cluster.passed_over == {"IPPool": 1, "BGPPeer": 1}
    assert codes_of(calico("FelixConfiguration", "default")) == ["PC0302"]
    assert codes_of(calico("Profile", "p")) == ["PC0302"]


def test_an_unknown_tier_and_an_unknown_service_have_the_nearest_name() -> None:
    tier = calico("Tier", "security", order=5)
    (finding,) = findings_of(tier, calico("GlobalNetworkPolicy", "p", tier="securty"))
    assert (finding.code, finding.hint) == ("PC1216", "did you mean `security`?")
    to = {"services": {"name": "wbe", "namespace": "shop"}}
    policy = calico("GlobalNetworkPolicy", "p", egress=[{"action": "Deny", "destination": to}])
    service = core("Service", "web", "shop", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
    (finding,) = findings_of(policy, service)
    assert (finding.code, finding.hint) == ("PC1215", "did you mean `shop/web`?")


def test_a_service_without_a_selector_is_not_supported() -> None:
    to = {"services": {"name": "web", "namespace": "shop"}}
    policy = calico("GlobalNetworkPolicy", "p", egress=[{"action": "Deny", "destination": to}])
    service = core("Service", "web", "shop", spec={"ports": [{"port": 80}]})
    (finding,) = findings_of(policy, service)
    assert finding.code == "PC1604"
    assert "a Service without a selector (shop/web)" in finding.message


def test_a_policy_named_after_an_existing_tier_needs_spec_tier() -> None:
    tier = calico("Tier", "security", order=5)
    assert codes_of(tier, calico("GlobalNetworkPolicy", "security.web")) == ["PC1218"]
    assert not codes_of(tier, calico("GlobalNetworkPolicy", "security.web", tier="security"))
    assert not codes_of(tier, calico("GlobalNetworkPolicy", "security.web", tier="default"))
    assert not codes_of(tier, calico("GlobalNetworkPolicy", "default.web"))
    assert not codes_of(tier, calico("GlobalNetworkPolicy", "other.web"))


def test_a_list_of_calico_s_policies_is_taken_apart() -> None:
    items = [{k: v for k, v in BY_LABEL.items() if k not in ("apiVersion", "kind")}]
    listed = {"apiVersion": V3, "kind": "GlobalNetworkPolicyList", "items": items}
    policies, _ = read_scenario("x", [listed])
    assert [policy.name for tier in policies.tiers for policy in tier.policies] == ["p"]


@pytest.mark.parametrize(("spec", "codes"), [({}, ["PC1230"]), ({"order": 5}, [])])
def test_a_tier_without_an_order_is_warned_about(spec: dict[str, object], codes: list[str]) -> None:
    tier = calico("Tier", "t", **spec)
    found = read_policies([ObjectsSource("test", (tier,))]).findings
    assert [finding.code for finding in found] == codes
