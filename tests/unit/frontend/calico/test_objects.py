# SPDX-License-Identifier: Apache-2.0
"""Calico's objects: what is read of each field, and every mistake at its place, by its API path."""

import copy
import io
import json
import random
from typing import Any

import pytest

from policyc.compiler.frontend import StreamSource, read_policies, read_scenario
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.policy import (
    NEVER,
    Action,
    Direction,
    EveryPort,
    IcmpType,
    NamedPort,
    Policy,
    PortRange,
    ProtocolNumber,
)
from policyc.ir.services import Kind, Protocol
from tests.property.length import examples
from tests.unit.frontend.odd_values import (
    VALUES,
    mutated,
)

TYPE = "apiVersion: projectcalico.org/v3\nkind: {kind}\n"
HEAD = TYPE + "metadata: {{name: x}}\nspec:\n"
RULE = HEAD.format(kind="NetworkPolicy") + "  ingress:\n  - action: Allow\n"
GLOBAL = HEAD.format(kind="GlobalNetworkPolicy")
EGRESS = GLOBAL + "  egress:\n  - action: Allow\n"
RULES: list[tuple[str, str, str]] = [
    # (lines of an ingress rule, `@` where it is shown, the finding, its hint)
    ("ipVersion: @5", "PC1204: ipVersion: 5 is not one of 4, 6", ""),
    ("protocol: @tcp", 'PC1206: protocol: "tcp" is not a protocol', "did you mean `TCP`?"),
    ("protocol: @0", "PC1206: protocol: 0 is not a protocol", "1 to 255"),
    ("protocol: @256", "PC1206: protocol: 256 is not a protocol", "1 to 255"),
    ("protocol: @'300'", "PC1206: protocol: 300 is not a protocol", "1 to 255"),
    ("notProtocol: @any", 'PC1206: notProtocol: "any" is not a protocol', ""),
    ("protocol: @[6]", "PC0201: protocol: expected an integer or a string", ""),
    ("icmp: @{type: 8}", "PC1209: icmp: icmp needs `protocol: ICMP`", ""),
    ("protocol: 1\n    icmp: @{type: 8}", "PC1209: icmp: icmp needs `protocol: ICMP`", ""),
    ("protocol: '58'\n    icmp: @{type: 8}", "PC1209: icmp: icmp needs `protocol: ICMP`", ""),
    ("source: {notNets: [@0.0.0.0/0]}", "PC1213: source.notNets[0]: 0.0.0.0/0 excludes", ""),
    ("source: {notNets: [@'::/0']}", "PC1213: source.notNets[0]: ::/0 excludes every", ""),
    ("protocol: ICMP\n    icmp: {type: @255}", "PC1209: icmp.type: 255 is not in 0 to 254", ""),
    ("protocol: ICMP\n    icmp: {type: 8, code: @256}", "PC1209: icmp.code: 256 is not", ""),
    ("protocol: ICMP\n    icmp: {code: @0}", "PC1209: icmp.code: an ICMP code", ""),
    ("notICMP: {code: @1}", "PC1209: notICMP.code: an ICMP code", ""),
    ("protocol: ICMPv6\n    ipVersion: @4", "PC1213: ipVersion: `protocol: ICMPv6` is of IPv6", ""),
    (
        "notProtocol: ICMP\n    ipVersion: @6",
        "PC1213: ipVersion: `notProtocol: ICMP` is of IPv4",
        "",
    ),
    ("destination: {ports: @[80]}", "PC1207: destination.ports: ports need", ""),
    ("source: {notPorts: @[80]}", "PC1207: source.notPorts: ports need", ""),
    ("protocol: ICMP\n    source: {ports: @[80]}", "PC1207: source.ports: ports need", ""),
    (
        "protocol: TCP\n    source: {ports: [@0, 65536, 99999999999999999999, true, 1.5]}",
        "PC1208: source.ports[0]: 0 is not a port: numbers are 1 to 65535",
        '"8080:8090"',
    ),
    (
        "protocol: TCP\n    source: {ports: [@'9:8', '0:3', '-', 'a b', '']}",
        'PC1208: source.ports[0]: "9:8" is not a port: the range ends before it starts',
        "",
    ),
    ("protocol: TCP\n    source: {ports: @80}", "PC0201: source.ports: expected a list", ""),
    (
        "source: {nets: [@10.0.0.1]}",
        'PC1210: source.nets[0]: "10.0.0.1" is not a CIDR: it is an address',
        "write 10.0.0.1/32",
    ),
    ("source: {nets: [@10.0.0.0/33]}", 'PC1210: source.nets[0]: "10.0.0.0/33" is no', ""),
    ("source: {nets: [@010.0.0.0/8]}", 'PC1210: source.nets[0]: "010.0.0.0/8" is no', ""),
    (
        "source: {notNets: [@'fd00::1']}",
        'PC1210: source.notNets[0]: "fd00::1" is not a CIDR: it is an address',
        "write fd00::1/128",
    ),
    (
        "source: {nets: [@10.0.0.1/8]}",
        'PC1211: source.nets[0]: "10.0.0.1/8" has bits set',
        "10.0.0.1/32",
    ),
    (
        "source: {nets: [10.0.0.0/8]}\n    destination: {notNets: [@'fd00::/8']}",
        "PC1212: destination.notNets[0]: fd00::/8 and 10",
        "two rules",
    ),
    (
        "ipVersion: 6\n    source: {nets: [@10.0.0.0/8]}",
        "PC1212: source.nets[0]: 10.0.0.0/8 and `ipVersion: 6` have different address families",
        "",
    ),
    ("source: {selector: a @= 'b'}", "PC1201: source.selector: expected `==`", ""),
    ("source: {notSelector: has(a@}", "PC1201: source.notSelector: expected `)`", ""),
    ("source: {selector: @global()}", "PC1203: source.selector: global()", ""),
    (
        "source: {namespaceSelector: @global() && all()}",
        "PC1203: source.namespaceSelector: global()",
        "",
    ),
    ("source: {selector: @5}", "PC0201: source.selector: expected a string", ""),
    ("source: {serviceAccounts: {selector: a@}}", "PC1201: source.serviceAccounts.sel", ""),
    ("source: {serviceAccounts: {@name: [a]}}", "PC0202: spec.ingress[0].source.serv", "names"),
    ("source: {@service: {}}", "PC0202: spec.ingress[0].source.service", "services"),
    ("source: {@domains: [a.b]}", "PC0202: spec.ingress[0].source.domains", ""),
    ("@sources: {}", "PC0202: spec.ingress[0].sources", "source"),
    ("source: {services: @{}}", "PC1205: source.services.name: a value is required", ""),
    ("source: {services: {name: @A_b}}", 'PC1226: source.services.name: "A_b": a low', ""),
    (
        "source: {services: {name: a}, selector: @all()}",
        "PC1213: source.selector: not together with services",
        "",
    ),
    (
        "source: {services: {name: a}, nets: @[10.0.0.0/8]}",
        "PC1213: source.nets: not together with services",
        "",
    ),
    ("destination: {services: @{name: a}}", "PC1214: destination.services: services", ""),
    (
        "action2: x\n    http: {methods: [GET], @path: []}",
        "PC0202: spec.ingress[0].http.path",
        "paths",
    ),
    ("protocol: UDP\n    http: @{}", "PC1213: http: http needs `protocol: TCP`", ""),
    ("metadata: {annotations: {a: @1}}", "PC0201: metadata.annotations.a: expected a st", ""),
]


def findings_of(text: str) -> list[Diagnostic]:
    try:
        return list(read_policies([StreamSource(io.BytesIO(text.encode()))]).findings)
    except InputError as wrong:
        return list(wrong.findings)


def shown(finding: Diagnostic) -> str:
    message = finding.message.replace("spec.ingress[0].", "", 1)
    if finding.code == "PC0202":
        message = finding.path
    return f"{finding.span.line}:{finding.span.column}: {finding.code}: {message}"


def without_mark(text: str) -> tuple[str, str]:
    """The text without its `@`, and `line:column` of where that was."""
    before, mark, after = text.partition("@")
    assert mark
    column = len(before) - before.rfind("\n")
    return before + after, f"{before.count(chr(10)) + 1}:{column}"


@pytest.mark.parametrize(("rule", "expected", "hint"), RULES)
def test_a_wrong_field_of_a_rule_is_shown_at_its_place(rule: str, expected: str, hint: str) -> None:
    text, place = without_mark(RULE + f"    {rule}\n")
    findings = findings_of(text)
    found = [f for f in findings if shown(f).startswith(f"{place}: {expected}")]
    assert found, [shown(finding) for finding in findings]
    assert hint in found[0].hint
    assert found[0].path


OBJECTS: list[tuple[str, str]] = [
    (GLOBAL + "  ingress: [{action: @allow}]\n", 'PC1204: action: "allow" is not one of Allow'),
    (GLOBAL + "  ingress: [{action: @''}]\n", "PC1205: action: a value is required"),
    (GLOBAL + "  ingress: [{action: Deny, protocol: @''}]\n", 'PC1206: protocol: "" is no'),
    (GLOBAL + "  ingress: [@{}]\n", "PC1205: action: a value is required"),
    (GLOBAL + "  ingress: [@null]\n", "PC1205: action: a value is required"),
    (GLOBAL + "  ingress: [@7]\n", "PC0201: spec.ingress[0]: expected a mapping"),
    (GLOBAL + "  ingress: @{}\n", "PC0201: spec.ingress: expected a list"),
    (GLOBAL.replace("name: ", "name: @a.b."), 'PC1226: metadata.name: "a.b.x": Calico takes one'),
    (GLOBAL + "  order: @first\n", "PC0201: spec.order: expected a number"),
    (GLOBAL + "  order: @true\n", "PC0201: spec.order: expected a number"),
    (GLOBAL + "  order: @1e999\n", "PC0201: spec.order: expected a number"),
    (GLOBAL + "  types: [Ingress, @Ingress]\n", 'PC1219: spec.types[1]: "Ingress" is given'),
    (GLOBAL + "  types: [@ingress]\n", 'PC1204: spec.types[0]: "ingress" is not one of'),
    (GLOBAL + "  performanceHints: [@Fast]\n", 'PC1204: spec.performanceHints[0]: "Fast"'),
    (GLOBAL + "  selector: a ==@\n", "PC1201: spec.selector: expected a quoted text"),
    (GLOBAL + "  selector: @global()\n", "PC1203: spec.selector: global()"),
    (GLOBAL + "  namespaceSelector: @global()\n", "PC1203: spec.namespaceSelector: global()"),
    (GLOBAL + "  serviceAccountSelector: x@\n", "PC1201: spec.serviceAccountSelector: exp"),
    (GLOBAL + "  tier: @nope\n", 'PC1216: spec.tier: there is no tier "nope"'),
    (GLOBAL + "  @podSelector: {}\n", "PC0202: spec.podSelector"),
    (GLOBAL + "  doNotTrack: @yes please\n", "PC0201: spec.doNotTrack: expected true or"),
    (
        GLOBAL + "  doNotTrack: true\n  preDNAT: @true\n  applyOnForward: true\n",
        "PC1213: spec.preDNAT: preDNAT and doNotTrack",
    ),
    (GLOBAL + "  @preDNAT: true\n", "PC1213: spec.applyOnForward: applyOnForward must be"),
    (
        GLOBAL + "  preDNAT: true\n  applyOnForward: true\n  egress: @[{action: Allow}]\n",
        "PC1213: spec.egress: a preDNAT policy",
    ),
    (
        GLOBAL + "  preDNAT: true\n  applyOnForward: true\n  types: @[Egress]\n",
        "PC1213: spec.types: a preDNAT policy",
    ),
    (
        GLOBAL + "  doNotTrack: @true\n  applyOnForward: true\n",
        "PC1606: spec.doNotTrack: policyc does not support untracked traffic of hosts",
    ),
    (EGRESS + "    http: @{}\n", "PC1213: spec.egress[0].http: http needs an ingress rule"),
    (
        EGRESS + "    destination: {services: @{name: a}}\n",
        "PC1205: spec.egress[0].destination.services.namespace: a value",
    ),
    (
        EGRESS
        + "    destination: {services: {name: a, namespace: b}, ports: @[1]}\n    protocol: TCP\n",
        "PC1213: spec.egress[0].destination.ports: not together with services",
    ),
    (
        EGRESS + "    source: {services: @{name: a, namespace: b}}\n",
        "PC1214: spec.egress[0].source.services: services are valid",
    ),
    (
        EGRESS + "    destination: {services: {name: @a, namespace: b}}\n",
        "PC1215: spec.egress[0].destination.services: there is no Service b/a",
    ),
    (
        GLOBAL + "  ingress: [{action: Deny, protocol: TCP, http: @{}}]\n",
        "PC1213: http: http needs a rule that allows",
    ),
    (
        GLOBAL + "  ingress: [{action: Allow, http: @{}}]\n",
        "PC1604: http: policyc does not support HTTP requests",
    ),
    (
        GLOBAL + "  ingress: [{action: Deny, protocol: TCP, source: {ports: [@http]}}]\n",
        "PC1604: source.ports[0]: policyc does not support source ports by name",
    ),
    (
        GLOBAL + "  types: [Egress]\n  @ingress: [{action: Allow}]\n",
        "PC1227: spec.ingress: these rules do nothing: types does not list Ingress",
    ),
    (HEAD.format(kind="NetworkPolicy") + "  @doNotTrack: true\n", "PC0202: spec.doNotTrack"),
    (
        TYPE.format(kind="GlobalNetworkPolicy") + "metadata: {name: @kube-admin.web}\n",
        "PC1218: metadata.name: the name has the prefix of the tier kube-admin",
    ),
    (
        TYPE.format(kind="GlobalNetworkPolicy") + "metadata: {name: x, namespace: @shop}\n",
        "PC1225: metadata.namespace: a GlobalNetworkPolicy is cluster-scoped",
    ),
    (TYPE.format(kind="GlobalNetworkPolicy") + "metadata: {name: @X_y}\n", "PC0403: metadata.name"),
    (HEAD.format(kind="Tier") + "  order: @x\n", "PC0201: spec.order: expected a number"),
    (
        HEAD.format(kind="Tier") + "  defaultAction: @''\n",
        "PC1205: spec.defaultAction: a value is required",
    ),
    (
        HEAD.format(kind="Tier") + "  defaultAction: @Allow\n",
        'PC1204: spec.defaultAction: "Allow" is not one of Deny, Pass',
    ),
    (
        TYPE.format(kind="Tier") + "metadata: {name: default}\nspec: {order: @5}\n",
        "PC1217: spec.order: the tier default always has order 1000000",
    ),
    (
        TYPE.format(kind="Tier") + "metadata: {name: kube-admin}\nspec: @{order: 1000}\n",
        "PC1217: spec.defaultAction: the tier kube-admin always has defaultAction Pass",
    ),
    (
        TYPE.format(kind="Tier") + "metadata: {name: @a.b}\n",
        'PC1226: metadata.name: "a.b": a lowercase RFC 1123 label',
    ),
    (
        HEAD.format(kind="GlobalNetworkSet") + "  nets: [@10.0.0.0/40]\n",
        'PC1210: spec.nets[0]: "10.0.0.0/40" is not a CIDR',
    ),
    (
        TYPE.format(kind="NetworkSet")
        + "metadata: {name: x, labels: {@projectcalico.org/namespace: z}}\n",
        "PC1223: metadata.labels: projectcalico.org/namespace is a label that Calico",
    ),
    (HEAD.format(kind="HostEndpoint") + "  @interfaceName: eth0\n", "PC1205: spec.node: a value"),
    (
        HEAD.format(kind="HostEndpoint") + "  node: @''\n  interfaceName: eth0\n",
        "PC1205: spec.node: a value",
    ),
    (
        HEAD.format(kind="HostEndpoint") + "  node: n\n  interfaceName: @eth0/1\n",
        'PC1226: spec.interfaceName: "eth0/1": interfaces are',
    ),
    (
        EGRESS + "    destination: {services: {name: a, namespace: @''}}\n",
        "PC1205: spec.egress[0].destination.services.namespace",
    ),
    (HEAD.format(kind="HostEndpoint") + "  @node: n\n", "PC1205: spec.interfaceName: a value"),
    (
        HEAD.format(kind="HostEndpoint") + "  node: n\n  expectedIPs: [@10.0.0.0/8]\n",
        'PC1221: spec.expectedIPs[0]: "10.0.0.0/8" is not an address',
    ),
    (
        HEAD.format(kind="HostEndpoint") + "  node: n\n  interfaceName: '*'\n  profiles: [@mine]\n",
        "PC1604: spec.profiles[0]: policyc does not support the profile mine",
    ),
    (
        HEAD.format(kind="HostEndpoint")
        + "  node: n\n  interfaceName: '*'\n  ports: @[{name: a, protocol: TCP, port: 1}]\n",
        "PC1604: spec.ports: policyc does not support named ports of a host endpoint",
    ),
    (
        HEAD.format(kind="StagedNetworkPolicy") + "  stagedAction: @Remove\n",
        'PC1204: spec.stagedAction: "Remove" is not one of Set, Delete, Learn, Ignore',
    ),
    (
        HEAD.format(kind="StagedGlobalNetworkPolicy") + "  stagedAction: Delete\n  @order: 5\n",
        "PC1220: spec.order: a staged deletion",
    ),
    (
        HEAD.format(kind="StagedKubernetesNetworkPolicy")
        + "  stagedAction: Delete\n  @podSelector: {matchLabels: {a: b}}\n",
        "PC1220: spec.podSelector: a staged deletion",
    ),
    (
        HEAD.format(kind="StagedKubernetesNetworkPolicy") + "  ingress: [{from: [@{}]}]\n",
        "PC0408: from[0]: Required value",
    ),
    (
        HEAD.format(kind="StagedNetworkPolicy") + "  tier: @nowhere\n",
        'PC1216: spec.tier: there is no tier "nowhere"',
    ),
]


@pytest.mark.parametrize(("text", "expected"), OBJECTS)
def test_a_wrong_object_is_shown_at_its_place(text: str, expected: str) -> None:
    text, place = without_mark(text)
    findings = findings_of(text)
    assert any(shown(f).startswith(f"{place}: {expected}") for f in findings), [
        shown(finding) for finding in findings
    ]


def test_one_run_shows_every_mistake() -> None:
    text = (
        GLOBAL
        + "  order: x\n  selector: a\n  ingress: [{action: a, protocol: b}, {ipVersion: 9}]\n"
    )
    assert [finding.code for finding in findings_of(text)] == [
        *("PC0201", "PC1201", "PC1204", "PC1206", "PC1205", "PC1204"),
    ]


def policy_of(text: str) -> Policy:
    read = read_policies([StreamSource(io.BytesIO(text.encode()))])
    (policy,) = (policy for tier in read.policies.tiers for policy in tier.policies)
    return policy


EVERY_FIELD = """
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: all-fields, labels: {projectcalico.org/tier: default}}
spec:
  tier: default
  order: 10.5
  selector: has(a)
  namespaceSelector: has(b)
  serviceAccountSelector: has(c)
  types: [Ingress, Egress]
  performanceHints: [AssumeNeededOnEveryNode]
  doNotTrack: false
  preDNAT: false
  applyOnForward: false
  ingress:
  - {action: Pass, protocol: UDPLite, metadata: {annotations: {why: because}}}
  - {action: Deny, protocol: ICMP, icmp: {type: 8, code: 0}, ipVersion: 4}
  - {action: Log}
  egress:
  - action: Allow
    protocol: TCP
    destination: {ports: [80, "90:99", web, "443"], notPorts: [95]}
status: {conditions: []}
"""


def test_every_field_is_read() -> None:
    policy = policy_of(EVERY_FIELD)
    assert policy.title == "GlobalNetworkPolicy.projectcalico.org all-fields"
    assert policy.isolates == frozenset(Direction)
    assert policy.hosts == NEVER  # it has a namespaceSelector
    assert [rule.action for rule in policy.ingress] == [Action.PASS, Action.DENY, Action.LOG]
    assert policy.ingress[0].ports == (ProtocolNumber(136),)
    assert policy.ingress[1].ports == (IcmpType(Kind.ICMP, 8, 0),)
    assert [rule.origin.path for rule in policy.ingress] == [f"spec.ingress[{i}]" for i in range(3)]
    (rule,) = policy.egress
    assert rule.ports == (
        PortRange(Protocol.TCP, 80, 80),
        PortRange(Protocol.TCP, 90, 99),
        NamedPort(Protocol.TCP, "web"),
        PortRange(Protocol.TCP, 443, 443),
    )
    assert rule.except_ports == (PortRange(Protocol.TCP, 95, 95),)
    assert rule.origin.span.line == 21


def test_a_protocol_s_number_is_its_name() -> None:
    text = GLOBAL + "  ingress: [{action: Allow, protocol: 17, notProtocol: '132'}]\n"
    (rule,) = policy_of(text).ingress
    assert rule.ports == (EveryPort(Protocol.UDP),)
    assert rule.except_ports == (EveryPort(Protocol.SCTP),)


def test_objects_with_any_value_anywhere_are_read_or_refused() -> None:
    objects = [
        json.loads(json.dumps(item)) for item in _every_object() if not isinstance(item, str)
    ]
    odd: tuple[Any, ...] = (
        *VALUES,
        "a == 'b' &&",
        "global()",
        "1:2",
        "x" * 5000,
        "(" * 500,
        10**60,
        10**400,
        "\ud800",
    )
    rng = random.Random(5)
    for round_ in range(examples(600)):
        changed = mutated(objects, rng)
        if round_ % 2:
            changed = _with_odd_value(objects, rng, odd)
        try:
            read_scenario("x", changed)
        except InputError as wrong:
            assert any(finding.is_error for finding in wrong.findings)


def _with_odd_value(objects: list[Any], rng: random.Random, odd: tuple[Any, ...]) -> list[Any]:
    objects = copy.deepcopy(objects)
    at: Any = rng.choice(objects)
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = rng.choice(keys)
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            at[key] = rng.choice(odd)
            return objects
        at = inner


def _every_object() -> list[Any]:
    """One object of each kind, with every field that it has."""
    entity = {
        "nets": ["10.0.0.0/8"],
        "notNets": ["10.1.0.0/16"],
        "selector": "a == 'b'",
        "notSelector": "has(c)",
        "namespaceSelector": "d in {'e'}",
        "serviceAccounts": {"names": ["f"], "selector": "g != 'h'"},
        "ports": [1, "2:3", "i"],
        "notPorts": [4],
    }
    rule = {
        "action": "Allow",
        "ipVersion": 4,
        "protocol": "TCP",
        "notProtocol": 47,
        "notICMP": {"type": 1, "code": 2},
        "destination": entity,
        "metadata": {"annotations": {"a": "b"}},
    }
    by_service = {"action": "Deny", "destination": {"services": {"name": "s", "namespace": "n"}}}
    spec = {
        "tier": "t",
        "order": 1.5,
        "selector": "all()",
        "serviceAccountSelector": "has(a)",
        "types": ["Ingress", "Egress"],
        "performanceHints": ["AssumeNeededOnEveryNode"],
        "ingress": [rule, {"action": "Pass", "protocol": "ICMP", "icmp": {"type": 3, "code": 4}}],
        "egress": [by_service, {"action": "Log"}],
    }
    more = {"namespaceSelector": "has(b)", "doNotTrack": False, "applyOnForward": False}
    specs: dict[str, dict[str, Any]] = {
        "Tier": {"order": 5, "defaultAction": "Pass"},
        "NetworkPolicy": spec,
        "GlobalNetworkPolicy": spec | more,
        "StagedNetworkPolicy": spec | {"stagedAction": "Set"},
        "StagedGlobalNetworkPolicy": spec | more | {"stagedAction": "Learn"},
        "StagedKubernetesNetworkPolicy": {
            "podSelector": {},
            "ingress": [{}],
            "stagedAction": "Set",
        },
        "NetworkSet": {"nets": ["10.0.0.1", "fd00::/8"]},
        "GlobalNetworkSet": {"nets": ["192.0.2.0/24"]},
        "HostEndpoint": {"node": "n", "interfaceName": "*", "expectedIPs": ["192.0.2.1"]},
    }
    service = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
    found: list[Any] = [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": "n"},
            "spec": service,
        }
    ]
    for version in ("projectcalico.org/v3", "crd.projectcalico.org/v1"):
        for kind, fields in specs.items():
            name = "t" if kind == "Tier" else f"x-{version[0]}"
            if kind == "Tier" and version.startswith("crd"):
                continue
            stored = json.dumps({"labels": {"a": "b"}})
            meta = {
                "name": name,
                "labels": {"a": "b"},
                "annotations": {"projectcalico.org/metadata": stored},
            }
            if kind == "HostEndpoint":
                fields = fields | {"node": f"n-{version[0]}"}
            found.append({"apiVersion": version, "kind": kind, "metadata": meta, "spec": fields})
    return found


def test_every_object_with_every_field_is_valid() -> None:
    policies, cluster = read_scenario("x", _every_object())
    names = [policy.title for tier in policies.tiers for policy in tier.policies]
    assert names == [
        "GlobalNetworkPolicy.projectcalico.org x-c",
        "NetworkPolicy.projectcalico.org default/x-c",
        "GlobalNetworkPolicy.projectcalico.org x-p",
        "NetworkPolicy.projectcalico.org default/x-p",
    ]
    assert [node.name for node in cluster.universe.nodes] == ["n-c", "n-p"]
