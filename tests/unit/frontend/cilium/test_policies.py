# SPDX-License-Identifier: Apache-2.0
"""Cilium's policies: what is refused, with its place, and what becomes of what is read (E45)."""

from io import BytesIO
from typing import Any

import pytest

from policyc.compiler.frontend import ObjectsSource, ReadOptions, read_policies, read_scenario
from policyc.compiler.frontend.cilium.entities import ENTITIES
from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.lowered import Profile, Unsupported
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.policy import (
    ANY_PEER,
    NEVER,
    NO_ENDPOINT,
    EveryPort,
    Policy,
    ProtocolNumber,
    TierMode,
)
from policyc.ir.services import Protocol


def cnp(spec: Any, kind: str = "CiliumNetworkPolicy", **more: Any) -> dict[str, Any]:
    metadata = {"name": "p"} | ({"namespace": "shop"} if kind == "CiliumNetworkPolicy" else {})
    written = {"apiVersion": "cilium.io/v2", "kind": kind, "metadata": metadata, **more}
    return written if spec is None else {**written, "spec": spec}


def rule(direction: str = "egress", **fields: Any) -> dict[str, Any]:
    return cnp({"endpointSelector": {}, direction: [fields]})


def ports(**port: Any) -> dict[str, Any]:
    return rule(toPorts=[{"ports": [port]}])


def icmp(**fields: Any) -> dict[str, Any]:
    return rule(icmps=[{"fields": [fields]}])


def findings(*objects: object, **options: Any) -> list[Diagnostic]:
    try:
        return list(
            read_policies([ObjectsSource("test", objects)], ReadOptions(**options)).findings
        )
    except InputError as wrong:
        return list(wrong.findings)


def policies(*objects: object, **options: Any) -> list[Policy]:
    read = read_policies([ObjectsSource("test", objects)], ReadOptions(**options))
    return [policy for tier in read.policies.tiers for policy in tier.policies]


NAMESPACE = "k8s:io.kubernetes.pod.namespace"
EGRESS = "spec.egress[0]"
PORT = f"{EGRESS}.toPorts[0].ports[0]"
REFUSED = [
    (cnp(None), "PC1301", "spec"),
    (cnp({"ingress": [{}]}), "PC1302", "spec"),
    (cnp({"endpointSelector": {}, "nodeSelector": {}, "ingress": [{}]}), "PC1302", "spec"),
    (cnp({"nodeSelector": {}, "ingress": [{}]}), "PC1303", "spec.nodeSelector"),
    (
        cnp({"endpointSelectr": {}, "endpointSelector": {}, "ingress": [{}]}),
        "PC0202",
        "spec.endpointSelectr",
    ),
    (rule(toCIDR=["10.0.0.0/8"], toEntities=["all"]), "PC1304", EGRESS),
    (
        rule(toPorts=[{"ports": [{"port": "1"}]}], icmps=[{"fields": [{"type": 8}]}]),
        "PC1305",
        EGRESS,
    ),
    (rule(toCIDR=["10.0.0.0/33"]), "PC1306", f"{EGRESS}.toCIDR[0]"),
    (rule(toCIDR=["example.com"]), "PC1306", f"{EGRESS}.toCIDR[0]"),
    (rule(toCIDR=[None]), "PC0201", f"{EGRESS}.toCIDR[0]"),
    (rule(toCIDR=["10.0.0.1/8"]), "PC1118", f"{EGRESS}.toCIDR[0]"),
    (rule(toCIDRSet=[{"cidr": "10.0.0.1"}]), "PC1306", f"{EGRESS}.toCIDRSet[0].cidr"),
    (rule(toCIDRSet=[{}]), "PC1103", f"{EGRESS}.toCIDRSet[0]"),
    (
        rule(toCIDRSet=[{"cidr": "10.0.0.0/8", "cidrGroupRef": "g"}]),
        "PC1102",
        f"{EGRESS}.toCIDRSet[0]",
    ),
    (
        rule(toCIDRSet=[{"cidr": "10.0.0.0/8", "except": ["11.0.0.0/8"]}]),
        "PC1307",
        f"{EGRESS}.toCIDRSet[0].except[0]",
    ),
    (rule(toCIDRSet=[{"cidrGroupRef": "g"}]), "PC1313", f"{EGRESS}.toCIDRSet[0].cidrGroupRef"),
    (ports(port="70000"), "PC1308", f"{PORT}.port"),
    (ports(port="080"), "PC1308", f"{PORT}.port"),
    (ports(port=""), "PC1308", f"{PORT}.port"),
    (ports(port=80), "PC0201", f"{PORT}.port"),
    (ports(port="0", endPort=5), "PC1308", f"{PORT}.port"),
    (ports(port="80", endPort=79), "PC1309", f"{PORT}.endPort"),
    (ports(port="80", endPort=70000), "PC1105", f"{PORT}.endPort"),
    (ports(port="80", protocol="tcp"), "PC1106", f"{PORT}.protocol"),
    (ports(port="80", protocol="VRRP"), "PC1310", f"{PORT}.port"),
    (ports(port="http", endPort=81), "PC1319", f"{PORT}.endPort"),
    (rule(toPorts=[{}]), "PC1318", f"{EGRESS}.toPorts[0]"),
    (rule(toPorts=[{"ports": [{"port": "1"}] * 41}]), "PC1102", f"{EGRESS}.toPorts[0].ports"),
    (icmp(type="Echo Reply"), "PC1311", f"{EGRESS}.icmps[0].fields[0].type"),
    (icmp(type=256), "PC1311", f"{EGRESS}.icmps[0].fields[0].type"),
    (icmp(family="IPv5", type=8), "PC1106", f"{EGRESS}.icmps[0].fields[0].family"),
    (icmp(family="IPv4"), "PC1101", f"{EGRESS}.icmps[0].fields[0].type"),
    (rule(toRequires=[{}]), "PC1312", f"{EGRESS}.toRequires"),
    (rule(toEntities=["wrld"]), "PC1106", f"{EGRESS}.toEntities[0]"),
    (rule(toEndpoints=[]), "PC1317", f"{EGRESS}.toEndpoints"),
    (rule(toEndpoints=[None]), "PC0201", f"{EGRESS}.toEndpoints[0]"),
    (
        rule(toEndpoints=[{"matchLabels": {"a": None}}]),
        "PC1117",
        f"{EGRESS}.toEndpoints[0].matchLabels.a",
    ),
    (
        rule(toEndpoints=[{"matchLabels": {"k8s:a b": "x"}}]),
        "PC1314",
        f"{EGRESS}.toEndpoints[0].matchLabels.k8s:a b",
    ),
    (
        rule(
            toEndpoints=[
                {"matchExpressions": [{"key": "k8s:a", "operator": "Gt", "values": ["1"]}]}
            ]
        ),
        "PC0407",
        f"{EGRESS}.toEndpoints[0].matchExpressions[0].operator",
    ),
    (cnp({"endpointSelector": {}, "ingress": [None]}), "PC0201", "spec.ingress[0]"),
    (cnp({"endpointSelector": {}}), "PC1316", "spec"),
    (cnp({"endpointSelector": {}, "ingress": [], "egressDeny": None}), "PC1316", "spec"),
    (cnp({"endpointSelector": {}, "enableDefaultDeny": {"ingress": True}}), "PC1316", "spec"),
    (
        cnp(None, specs=[{"endpointSelector": {}, "ingress": [{}]}, {"endpointSelector": {}}]),
        "PC1316",
        "specs[1]",
    ),
    (
        cnp({"endpointSelector": {}, "egressDeny": [{"toFQDNs": [{"matchName": "a"}]}]}),
        "PC0202",
        "spec.egressDeny[0].toFQDNs",
    ),
    (
        cnp(
            {
                "endpointSelector": {"matchLabels": {"k8s:io.kubernetes.pod.namespace": "x"}},
                "ingress": [{}],
            }
        ),
        "PC1315",
        f"spec.endpointSelector.matchLabels.{NAMESPACE}",
    ),
    (
        cnp({"endpointSelector": {"matchLabels": {"reserved:init": ""}}, "ingress": [{}]}),
        "PC1606",
        "spec.endpointSelector.matchLabels.reserved:init",
    ),
]


@pytest.mark.parametrize(("written", "code", "path"), REFUSED)
def test_a_wrong_field_is_one_finding_at_its_place(written: Any, code: str, path: str) -> None:
    found = findings(written)
    assert [(f.code, f.path.removeprefix("objects[0].")) for f in found] == [(code, path)]


def test_icmp_in_toports_is_an_error_with_a_hint() -> None:
    for protocol in ("ICMP", "ICMPv6"):
        (found,) = findings(ports(port="0", protocol=protocol))
        assert (found.code, "`icmps:`" in str(found.hint)) == ("PC1106", True)
    (slip,) = findings(ports(port="80", protocol="SCTPP"))
    assert "`SCTP`" in str(slip.hint)


@pytest.mark.parametrize(
    ("subject", "what"),
    [
        ({"matchLabels": {"reserved:init": ""}}, "the entity init as"),
        ({"matchLabels": {"reserved:init": "", "a": "b"}}, "beside other labels"),
        ({"matchLabels": {"reserved:init": "x"}}, "negated, or with a value"),
    ],
)
def test_reserved_labels_of_a_subject_are_refused_with_a_reason(subject: Any, what: str) -> None:
    (found,) = findings(cnp({"endpointSelector": subject, "ingress": [{}]}))
    assert found.code == "PC1606" and what in found.message


WEB = {"ports": [{"port": "80"}]}
PING = {"fields": [{"type": 8}]}


@pytest.mark.parametrize(
    ("fields", "path", "what"),
    [
        ({"toEndpoints": None, "toPorts": [WEB]}, "toEndpoints", "every peer"),
        ({"toCIDRSet": None, "icmps": [PING]}, "toCIDRSet", "every peer"),
        ({"toEntities": ["all"], "toPorts": None}, "toPorts", "every port and protocol"),
    ],
)
@pytest.mark.parametrize("direction", ["egress", "egressDeny"])
def test_a_null_list_that_limits_nothing_is_warned_about(
    direction: str, fields: Any, path: str, what: str
) -> None:
    (found,) = findings(rule(direction, **fields))
    where = f"spec.{direction}[0].{path}"
    assert (found.code, found.is_error) == ("PC1322", False)
    assert found.path.removeprefix("objects[0].") == where
    does = "denies" if direction.endswith("Deny") else "allows"
    assert f"the rule {does} {what}" in found.message


@pytest.mark.parametrize(
    "fields",
    [
        {"toEndpoints": None, "toEntities": ["all"], "toPorts": [WEB]},
        {"toEntities": ["all"], "toPorts": None, "icmps": [PING]},
        {"toEndpoints": None},
        {},
    ],
)
def test_a_null_list_that_changes_nothing_has_no_findings(fields: Any) -> None:
    assert findings(rule(**fields)) == []


NOT_MAIL = {"key": NAMESPACE, "operator": "NotIn", "values": ["mail"]}
HAS_ONE = {"key": NAMESPACE, "operator": "Exists"}


def test_a_selector_that_only_negates_is_warned_about() -> None:
    (found,) = findings(rule(toEndpoints=[{"matchExpressions": [NOT_MAIL]}]))
    assert (found.code, found.is_error) == ("PC1320", False)
    assert findings(rule(toEndpoints=[{"matchExpressions": [NOT_MAIL, HAS_ONE]}])) == []
    own = {"key": "app", "operator": "DoesNotExist"}
    assert findings(rule(toEndpoints=[{"matchExpressions": [own]}])) == []


L7 = {"ports": [{"port": "80", "protocol": "TCP"}]}
UNSUPPORTED = [
    (rule(toFQDNs=[{"matchName": "a.io"}]), f"{EGRESS}.toFQDNs[0]", "domain names"),
    (rule(toGroups=[{"aws": {}}]), f"{EGRESS}.toGroups[0]", "groups"),
    (
        rule("egressDeny", toEntities=["kube-apiserver"]),
        "spec.egressDeny[0].toEntities[0]",
        "kube-apiserver",
    ),
    (rule(toEntities=["cluster-mesh"]), f"{EGRESS}.toEntities[0]", "cluster-mesh"),
    (rule(toPorts=[{**L7, "rules": {"http": [{}]}}]), f"{EGRESS}.toPorts[0].rules", "layer 7"),
    (
        rule(toPorts=[{**L7, "serverNames": ["a"]}]),
        f"{EGRESS}.toPorts[0].serverNames",
        "serverNames",
    ),
    (rule(toPorts=[{**L7, "listener": {}}]), f"{EGRESS}.toPorts[0].listener", "listener"),
    (rule(toPorts=[{**L7, "originatingTLS": {}}]), f"{EGRESS}.toPorts[0].originatingTLS", "TLS"),
    (
        rule(toEntities=["all"], authentication={"mode": "required"}),
        f"{EGRESS}.authentication",
        "authentication",
    ),
    (
        rule(toEndpoints=[{"matchLabels": {"reserved:host": "", "a": "b"}}]),
        f"{EGRESS}.toEndpoints[0].matchLabels.reserved:host",
        "reserved label",
    ),
    (
        rule(toEndpoints=[{"matchLabels": {"container:a": "b"}}]),
        f"{EGRESS}.toEndpoints[0].matchLabels.container:a",
        "source container",
    ),
    (
        rule(toServices=[{"k8sService": {"serviceName": "db", "namespace": "shop"}}]),
        f"{EGRESS}.toServices[0].k8sService",
        "shop/db",
    ),
    (
        rule(toServices=[{"k8sServiceSelector": {"selector": {}}}]),
        f"{EGRESS}.toServices[0].k8sServiceSelector",
        "that is selected",
    ),
    (
        rule("egressDeny", toCIDRSet=[{"cidrGroupSelector": {"matchLabels": {"role": "bad"}}}]),
        "spec.egressDeny[0].toCIDRSet[0].cidrGroupSelector",
        "CiliumCIDRGroups by selector",
    ),
]


@pytest.mark.parametrize("entity", ["kube-apiserver", "health", "ingress", "init", "unmanaged"])
@pytest.mark.parametrize("how", list(Unsupported))
def test_an_allow_of_an_entity_that_nothing_knows_is_read_and_allows_nothing(
    entity: str, how: Unsupported
) -> None:
    label = {"matchLabels": {f"reserved:{entity}": ""}}
    for peers in ({"toEntities": [entity]}, {"toEndpoints": [label]}):
        written = rule(**peers)
        assert [each.code for each in findings(written, unsupported=how)] == ["PC1605"]
        (given,) = policies(written, unsupported=how)
        (found,) = given.egress
        assert found.peers == () and found.opaque is not None
        assert found.opaque.widest.peers == (ANY_PEER,), "whom it means is not known"
    (given,) = policies(rule(toEntities=[entity, "world"]), unsupported=how)
    assert given.egress[0].peers == (ENTITIES["world"],)


@pytest.mark.parametrize(("written", "path", "what"), UNSUPPORTED)
def test_unsupported_fields_are_named_and_closed_on_request(
    written: Any, path: str, what: str
) -> None:
    (found,) = findings(written)
    assert (found.code, found.path.removeprefix("objects[0].")) == ("PC1604", path)
    assert what in found.message
    (closed,) = findings(written, unsupported=Unsupported.DENY)
    assert (closed.code, closed.is_error) == ("PC1605", False)


@pytest.mark.parametrize(
    "written",
    [
        rule(toPorts=[{**L7, "rules": {}}]),
        rule(toPorts=[{**L7, "rules": {"http": []}, "serverNames": []}]),
        rule(toEntities=["all"], authentication={"mode": "disabled"}),
        rule(toEntities=["all"], toRequires=[]),
        cnp(
            {"endpointSelector": {}, "ingress": [{}], "labels": [{"key": "a"}], "description": "x"}
        ),
        cnp({"endpointSelector": {}, "ingress": [{}], "log": {"value": "x"}}),
        rule(toCIDR=["2001:db8::1", "10.0.0.1"]),
    ],
)
def test_empty_fields_have_no_findings(written: Any) -> None:
    assert findings(written) == []


def test_a_service_without_a_selector_is_not_supported() -> None:
    written = rule(toServices=[{"k8sService": {"serviceName": "db"}}])
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": {}}
    with pytest.raises(InputError) as wrong:
        read_scenario("x", [written, service])
    assert "default/db, which has no selector" in wrong.value.findings[0].message


def group(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    spec = {"externalCIDRs": ["203.0.113.0/24"]}
    return {
        "apiVersion": "cilium.io/v2",
        "kind": "CiliumCIDRGroup",
        "metadata": metadata,
        "spec": spec,
    }


def test_a_deny_of_unknown_cidr_groups_denies_the_world() -> None:
    """Groups have addresses outside of the cluster."""
    written = rule("ingressDeny", fromCIDRSet=[{"cidrGroupSelector": {}}])
    (policy,) = policies(written, unsupported=Unsupported.DENY)
    assert policy.ingress[0].peers == (ENTITIES["world"],)
    assert policy.ingress[0].opaque is not None
    assert policy.ingress[0].opaque.certain.peers == ()


def test_a_selector_of_groups_that_finds_none_is_warned_about() -> None:
    written = rule(toCIDRSet=[{"cidrGroupSelector": {"matchLabels": {"role": "cdn"}}}])
    assert findings(written, group("a", role="cdn"), group("b")) == []
    (found,) = findings(written, group("b"))
    assert (found.code, found.is_error) == ("PC1321", False)
    assert found.path.removeprefix("objects[0].") == f"{EGRESS}.toCIDRSet[0].cidrGroupSelector"


SERVICE = Service(
    ObjectMeta("db", "shop", {"tier": "data"}),
    "ClusterIP",
    (),
    (),
    {"app": "db"},
)


@pytest.mark.parametrize(
    ("selector", "codes"),
    [
        ({"selector": {"matchLabels": {"tier": "data"}}}, []),
        ({"selector": {"matchLabels": {"tier": "web"}}}, ["PC1321"]),
        ({"selector": {"matchLabels": {"tier": "data"}}, "namespace": "mail"}, ["PC1321"]),
    ],
)
def test_a_selector_of_services_that_finds_none_is_warned_about(
    selector: Any, codes: list[str]
) -> None:
    written = rule(toServices=[{"k8sServiceSelector": selector}])
    read = read_policies([ObjectsSource("test", (written,))], services=[SERVICE])
    assert [finding.code for finding in read.findings] == codes


def test_services_with_ports_are_warned_about() -> None:
    named = {"toServices": [{"k8sService": {"serviceName": "db", "namespace": "shop"}}]}
    for direction in ("egress", "egressDeny"):
        written = rule(direction, **named, toPorts=[WEB])
        (found, _) = findings(written, unsupported=Unsupported.DENY)
        assert (found.code, found.is_error) == ("PC1323", False)
        assert found.path.removeprefix("objects[0].") == f"spec.{direction}[0].toPorts"
    assert len(findings(rule(**named, toPorts=[]), unsupported=Unsupported.DENY)) == 1


def test_an_unknown_group_is_reported_at_its_reference() -> None:
    line = "  egress: [{toCIDRSet: [{cidrGroupRef: gruop}]}]"
    text = f"""apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {{name: p, namespace: shop}}
spec:
  endpointSelector: {{}}
{line}
"""
    with pytest.raises(InputError) as wrong:
        groups = ObjectsSource("g", (group("group"),))
        read_policies([StreamSource(BytesIO(text.encode())), groups])
    (found,) = wrong.value.findings
    assert (found.code, found.path) == ("PC1313", f"{EGRESS}.toCIDRSet[0].cidrGroupRef")
    assert (found.span.line, found.span.column) == (6, line.index("gruop") + 1)
    assert "`group`" in str(found.hint)


def test_protocols_without_ports_are_their_numbers() -> None:
    (policy,) = policies(ports(protocol="VRRP"))
    assert policy.egress[0].ports == (ProtocolNumber(112),)
    (policy,) = policies(ports(port="0"))
    assert policy.egress[0].ports == tuple(EveryPort(protocol) for protocol in Protocol)


def test_a_node_selector_selects_hosts_and_no_endpoint() -> None:
    spec = {"nodeSelector": {"matchLabels": {"zone": "a"}}, "ingress": [{}]}
    (policy,) = policies(cnp(spec, "CiliumClusterwideNetworkPolicy"))
    assert policy.subject == NO_ENDPOINT and policy.hosts != NEVER


def test_policies_are_titled_with_kind_and_group_and_each_spec_apart() -> None:
    spec = {"endpointSelector": {}, "ingress": [{}]}
    found = policies(cnp(spec, specs=[spec, spec]))
    assert [policy.title for policy in found] == [
        "CiliumNetworkPolicy.cilium.io shop/p",
        "CiliumNetworkPolicy.cilium.io shop/p.specs[0]",
        "CiliumNetworkPolicy.cilium.io shop/p.specs[1]",
    ]
    assert found[1].ingress[0].origin.path == "specs[0].ingress[0]"


def test_cilium_s_policies_ask_for_cilium_s_profile() -> None:
    read = read_policies([ObjectsSource("test", (rule(),))])
    assert read.profile is Profile.CILIUM
    assert read.policies.tiers[0].mode is TierMode.DENY_WINS
    (wrong,) = findings(rule(), profile=Profile.CALICO)
    assert wrong.code == "PC1602"
    calico = {
        "apiVersion": "projectcalico.org/v3",
        "kind": "GlobalNetworkPolicy",
        "metadata": {"name": "g"},
        "spec": {"selector": "all()"},
    }
    assert "PC1601" in [finding.code for finding in findings(rule(), calico)]
