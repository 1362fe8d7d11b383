# SPDX-License-Identifier: Apache-2.0
"""What `policyc convert --to extended` writes, as people read it, and what it says it cannot.

`convert_inputs` proves every output equal to its input before it gives it.
"""

import random
from dataclasses import replace
from io import BytesIO
from ipaddress import ip_network

import pytest

from policyc.backends.policies.extended import BUILT_IN, to_extended_policies
from policyc.backends.policies.target import InexpressibleError
from policyc.compiler.driver.compare.convert import (
    convert_inputs,
    to_yaml,
)
from policyc.compiler.driver.compile.compile import Inputs
from policyc.compiler.frontend import ReadOptions, StreamSource
from policyc.compiler.frontend.extended.formatting import format_yaml_file
from policyc.grammar.parse import parse_rules
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.ir.policy import (
    Action,
    AddressPeer,
    AllOf,
    AnyService,
    Attribute,
    AttributeTest,
    Condition,
    EndpointPeer,
    EndpointSelector,
    LabelSelector,
    Limit,
    NodePeer,
    OneOf,
    Operator,
    PolicySet,
    PortRange,
    Requirement,
    Tier,
)
from policyc.ir.services import Protocol
from tests.golden.verdict_cases import engine_cases
from tests.property.tiered_cases import tiered_case

HEAD = "apiVersion: policyc.dev/v1alpha1\nkind: ExtendedPolicy\n"


def converted(text: str) -> str:
    """The objects without their common first fields."""
    inputs = Inputs((StreamSource(BytesIO(text.encode())),), (), ReadOptions())
    return convert_inputs(inputs, "extended", False, lambda _: None).text.replace(HEAD, "")


def refusals(text: str) -> list[str]:
    with pytest.raises(InputError) as refused:
        converted(text)
    assert {finding.code for finding in refused.value.findings} == {"PC1701"}
    return [finding.message for finding in refused.value.findings]


NETWORK_POLICIES = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: api, namespace: shop}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/name: api}}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - podSelector: {matchExpressions: [{key: app, operator: In, values: [web, cart]}]}
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: lab}}
          podSelector: {matchLabels: {app: probe}}
        - namespaceSelector: {}
          podSelector: {matchLabels: {app: scraper}}
        - ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16, 10.8.0.0/16]}
      ports: [{port: http}, {port: 8000, endPort: 8100, protocol: UDP}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: "y", namespace: shop}
spec: {podSelector: {}, ingress: [{}]}
"""
AS_NETWORK_POLICIES = """\
metadata:
  name: api
  namespace: shop
spec:
  tier: 100
  order: 10
  appliesTo: pod["app.kubernetes.io/name"] == "api"
  rules: |
    ingress:
      allow tcp/http, udp/8000-8100 from pod.app in {"cart", "web"},
        namespace == "lab" && pod.app == "probe", namespace exists && pod.app == "scraper",
        10.0.0.0/8 except {10.8.0.0/16, 10.9.0.0/16}
    egress:
---
metadata:
  name: 'y'
  namespace: shop
spec:
  tier: 100
  order: 20
  appliesTo: all
  rules: |
    ingress:
      allow
"""
CALICO = """\
apiVersion: projectcalico.org/v3
kind: Tier
metadata: {name: security}
spec: {order: 100, defaultAction: Pass}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: block}
spec:
  tier: security
  order: 10
  selector: app in {'web', 'api'} && has(team)
  types: [Ingress]
  ingress:
    - {action: Log}
    - action: Deny
      protocol: TCP
      source: {notSelector: role == 'x'}
      destination: {notPorts: [22, "1000:2000"]}
    - {action: Deny, source: {nets: [192.0.2.0/24]}, destination: {nets: [10.1.0.0/16]}}
    - {action: Allow, protocol: ICMP, icmp: {type: 8}}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: jump}
spec:
  tier: security
  order: 20
  selector: zone contains '"'
  types: [Ingress, Egress]
  egress:
    - {action: Pass, destination: {selector: "!(app starts with 'we')"}}
---
apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  serviceAccountSelector: team == 'blue'
  ingress:
    - {action: Allow, source: {serviceAccounts: {names: [robot]}}}
"""
AS_CALICO = """\
metadata:
  name: block
spec:
  tier: 100
  order: 10
  appliesTo: pod.app in {"api", "web"} && pod.team exists
  rules: |
    ingress:
      log
      deny tcp except {tcp/22, tcp/1000-2000} from entity world, node all, pod.role != "x"
      deny any from 192.0.2.0/24 to 10.1.0.0/16
      allow icmp 8
      pass
---
metadata:
  name: jump
spec:
  tier: 100
  order: 20
  appliesTo: pod.zone contains "\\""
  rules: |
    egress:
      pass any to !(pod.app starts with "we")
      pass
---
metadata:
  name: web
  namespace: shop
spec:
  tier: 200
  appliesTo: serviceaccount.team == "blue"
  rules: |
    ingress:
      allow any from serviceaccount == "robot"
"""
CILIUM = """\
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  enableDefaultDeny: {egress: false}
  ingress:
    - fromEntities: [world, host]
      toPorts: [{ports: [{port: "443", protocol: TCP}]}]
    - fromCIDRSet: [{cidr: 10.0.0.0/8, except: [10.9.0.0/16]}]
    - fromNodes: [{matchLabels: {pool: ops}}]
    - icmps: [{fields: [{type: EchoRequest}, {type: EchoRequest, family: IPv6}]}]
  ingressDeny:
    - fromEndpoints: [{matchExpressions: [{key: old, operator: Exists}]}]
  egressDeny:
    - toEntities: [cluster]
---
apiVersion: cilium.io/v2
kind: CiliumClusterwideNetworkPolicy
metadata: {name: out}
spec:
  endpointSelector: {}
  egress: [{toCIDR: [192.0.2.1/32]}]
"""
AS_CILIUM = """\
metadata:
  name: web-denies
  namespace: shop
spec:
  tier: 100
  order: 10
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      deny any from pod.old exists
    egress:
      deny any to entity cluster
---
metadata:
  name: out
spec:
  tier: 100
  order: 20
  appliesTo: all
  rules: |
    egress:
      allow any to entity world in 192.0.2.1
---
metadata:
  name: web
  namespace: shop
spec:
  tier: 100
  order: 30
  appliesTo: pod.app == "web"
  rules: |
    ingress:
      allow tcp/443 from entity world, entity host
      allow any from entity world in 10.0.0.0/8 except 10.9.0.0/16
      allow any from entity remote-node with node.pool == "ops"
      allow icmp echo-request
---
metadata:
  name: out-default
spec:
  tier: 100
  order: 40
  appliesTo: all
  rules: |
    egress:
      deny
---
metadata:
  name: networkpolicy-passes
spec:
  tier: 100
  order: 50
  appliesTo: all
  rules: |
    egress:
      pass
"""
ADMIN = """\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: admin}
spec:
  tier: Admin
  priority: 5
  subject: {namespaces: {matchExpressions: [{key: tenant, operator: NotIn, values: [a, b]}]}}
  ingress:
    - {name: mesh, action: Pass, from: [{namespaces: {matchLabels: {mesh: "on"}}}]}
  egress:
    - name: no "metadata"
      action: Deny
      to: [{networks: [169.254.169.254/32]}]
"""
AS_ADMIN = """\
metadata:
  name: admin
spec:
  tier: 100
  appliesTo: ns.tenant not in {"a", "b"}
  rules: |
    ingress:
      pass any from ns.mesh == "on" as "mesh"
      pass
    egress:
      deny any to 169.254.169.254 as "no \\"metadata\\""
      pass
"""
EXTENDED = """\
apiVersion: policyc.dev/v1alpha1
kind: ExtendedPolicy
metadata: {name: several, namespace: shop}
spec:
  tier: 7
  appliesTo: (pod.app == "a" || !has(pod.b) && all) && namespace == "shop" && node == "n1"
  rules: |
    ingress:
      reject icmp 8, icmp redirect, icmpv6 1 code 4, protocol 47, sctp from entity cluster log
      allow tcp/1 from all, node all, entity world, 10.0.0.0/8 limit 5/s burst 6 log as "x"
      deny any from pod.a exists, !all to pod.b starts with "x" || ns.c == "d"
      audit tcp/1-65535 from !(pod.a == "x" && node["b/c"] ends with "y")
      pass from entity remote-node with node.a == "b" && node == "n" in 10.0.0.0/8,
          (pod.a exists || pod.b exists) in ::/0
    egress:
      allow any from 10.0.0.0/8 to any
      deny any except {udp/53, tcp/dns} to any
"""
AS_EXTENDED = """\
metadata:
  name: several
  namespace: shop
spec:
  tier: 100
  appliesTo: (pod.app == "a" || !has(pod.b)) && node == "n1"
  rules: |
    ingress:
      reject icmp 8, icmp redirect, icmpv6 destination-unreachable code 4, protocol 47, sctp
        from entity cluster log
      allow tcp/1 from all, node all, entity world, 10.0.0.0/8 log limit 5/s burst 6 as "x"
      deny any from pod.a exists to pod.b starts with "x" || ns.c == "d"
      audit tcp/1-65535 from pod.a != "x" || !(node["b/c"] ends with "y")
      pass any from entity remote-node with node.a == "b" && node == "n" in 10.0.0.0/8,
        (pod.a exists || pod.b exists) in ::/0
    egress:
      allow any from 10.0.0.0/8 to any
      deny any except {udp/53, tcp/dns}
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NETWORK_POLICIES, AS_NETWORK_POLICIES),
        (CALICO, AS_CALICO),
        (CILIUM, AS_CILIUM),
        (ADMIN, AS_ADMIN),
        (EXTENDED, AS_EXTENDED),
    ],
    ids=["NetworkPolicy", "Calico", "Cilium", "ClusterNetworkPolicy", "ExtendedPolicy"],
)
def test_converted_policies_equal_handwritten_ones(given: str, expected: str) -> None:
    assert converted(given) == expected


def test_convert_writes_the_layout_of_fmt() -> None:
    count = 0
    for case in engine_cases():
        data = to_yaml(to_extended_policies(case.policies)).encode()
        assert format_yaml_file(data, case.slug, Report()) == data, case.title
        count += b"rules: |" in data
    assert count > 100


def calico(rule: str, selector: str = "all()") -> str:
    return (
        "apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\n"
        "metadata: {name: p, namespace: shop}\n"
        f"spec: {{selector: {selector!r}, ingress: [{{action: Allow, protocol: TCP, {rule}}}]}}\n"
    )


HOSTS = """\
apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {name: h, labels: {role: node}}
spec: {node: n1, interfaceName: "*", expectedIPs: [192.0.2.1]}
---
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: g}
spec: {selector: has(role), ingress: [{action: Allow}]}
"""


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (calico("source: {ports: [1024]}"), "it matches source ports"),
        (
            calico("source: {selector: app == 'a b'}"),
            "it compares a label with 'a b', which is not valid",
        ),
        (
            calico("", "app == 'a b'"),
            "in its subject, it compares a label with 'a b', which is not valid",
        ),
        (calico('destination: {ports: ["any"]}'), "it asks for a port by the name 'any'"),
        (HOSTS, "it selects host interfaces"),
    ],
)
def test_an_inexpressible_rule_is_refused_by_name(given: str, why: str) -> None:
    (message,) = refusals(given)
    assert message.endswith(f": {why}") or why in message


def nested(depth: int) -> EndpointSelector:
    """A condition of alternations in each other."""
    condition: Condition = HAS_A
    for at in range(depth):
        other = AttributeTest(Attribute.LABEL, Requirement(f"k{at}", Operator.EXISTS))
        condition = (OneOf if at % 2 else AllOf)((other, condition))
    return EndpointSelector(condition=condition)


HAS_A = AttributeTest(Attribute.LABEL, Requirement("a", Operator.EXISTS))
HAS_ODD = EndpointSelector(labels=LabelSelector((Requirement("a b", Operator.EXISTS),)))


def changed(**fields: object) -> PolicySet:
    """One rule, changed to a form that no API has."""
    (case,) = [case for case in engine_cases() if case.title == "services that are taken out"]
    (tier,) = [tier for tier in case.policies.tiers if tier.policies]
    (policy,) = tier.policies
    rule = replace(policy.ingress[0], **fields)
    return PolicySet((replace(tier, policies=(replace(policy, ingress=(rule,)),)),))


@pytest.mark.parametrize(
    ("policies", "why"),
    [
        (
            changed(ports=(PortRange(Protocol.TCP, 0, 10),)),
            "it matches port 0, but ports are 1 to 65535",
        ),
        (
            changed(peers=(AddressPeer(ip_network("::ffff:0:0/96")),)),
            "it has IPv4-mapped IPv6 addresses",
        ),
        (
            changed(action=Action.DENY, limit=Limit(1, 1)),
            "it limits a deny, but only an allow can have a limit",
        ),
        (
            changed(peers=(EndpointPeer(nested(30)),)),
            "its selector is nested too deeply to be written",
        ),
        (changed(limit=Limit(0, 1)), "its limit is not from 1 to 1000000000 a second"),
        (
            changed(peers=(NodePeer(HAS_A),)),
            "it selects host interfaces by label",
        ),
        (
            changed(own=EndpointPeer(HAS_ODD)),
            "it reads 'a b', which is not a valid label name",
        ),
    ],
)  # fmt: skip
def test_rules_that_no_object_gives_are_refused_as_well(policies: PolicySet, why: str) -> None:
    with pytest.raises(InexpressibleError) as refused:
        to_extended_policies(policies)
    assert [each.why for each in refused.value.found] == [why]


def test_a_deep_selector_can_still_be_read_back() -> None:
    (found,) = to_extended_policies(changed(peers=(EndpointPeer(nested(20)),)))
    assert not parse_rules(found["spec"]["rules"]).problems


def test_rules_without_peers_are_omitted_and_their_section_stays() -> None:
    for fields in (
        {"ports": ()},
        {"peers": ()},
        {"own": NodePeer()},
        {"except_ports": (AnyService(),)},
    ):
        (written,) = to_extended_policies(changed(**fields))
        assert written["spec"]["rules"].startswith("ingress:\negress:\n")


def test_written_tiers_avoid_the_numbers_of_built_in_tiers() -> None:
    (tier,) = [t for case in engine_cases()[:1] for t in case.policies.tiers if t.policies][:1]
    tiers = tuple(Tier(f"t{at}", tier.mode, tier.unmatched, tier.policies) for at in range(30))
    objects = to_extended_policies(PolicySet(tiers))
    numbers = list(dict.fromkeys(each["spec"]["tier"] for each in objects))
    assert numbers == sorted(numbers)
    assert len(numbers) == 30
    assert not set(numbers) & set(BUILT_IN)


def test_most_policy_sets_can_be_written() -> None:
    """Random policy sets have features that no API has: labels of hosts, IPv4 written as IPv6."""
    said = 0
    for seed in range(60):
        policies = tiered_case(random.Random(seed), max_tiers=3, max_policies=3).policies
        try:
            data = to_yaml(to_extended_policies(policies)).encode()
        except InexpressibleError:
            continue
        assert format_yaml_file(data, f"seed {seed}", Report()) == data
        said += 1
    assert said >= 30


def test_a_tier_that_rejects_the_rest_is_written_with_reject_rules() -> None:
    (tier,) = changed(peers=()).tiers
    objects = to_extended_policies(PolicySet((replace(tier, unmatched=Action.REJECT),)))
    assert [(each["metadata"]["name"], each["spec"]["rules"]) for each in objects] == [
        ("p", "egress:\n  allow any except sctp\n"),
        ("p-default", "ingress:\n  reject\negress:\n  reject\n"),
        ("extended-500-passes", "egress:\n  pass\n"),
    ]
