# SPDX-License-Identifier: Apache-2.0
"""The cases of tests/golden/verdict/*.yaml: policies, pods, flows and the verdicts they must get.

One table for every engine. A file is a list of cases:

    case: a sentence, unique in all files
    semantics: [A6, A8]                       # clauses of docs/semantics.md
    namespaces: {shop: {team: blue}}          # labels; those without an entry have only their name
    pods:                                     # shop/web, or shop/web: with any of the fields below
      shop/web: {labels: {app: web}, ports: {http: 8080, dns: UDP 53}, ips: [10.0.0.1], node: n1,
                 hostNetwork: true, template: true, spec: {...}, status: {...}}
    nodes: {n1: {labels: {zone: a}, ips: [192.0.2.1]}}
    services: {shop/web: {selector: {app: web}}}      # the spec
    service_accounts: {shop/robot: {team: blue}}      # labels
    policies: [{namespace: shop, name: web, podSelector: {}, egress: []}]
    options: {channel: standard, profile: cilium, unsupported: deny}
    engines: semantics                        # only the reference semantics can answer yet
    flows:
      - {from: shop/web, to: 203.0.113.9, port: TCP 443, verdict: allow, by: default}

A policy is a NetworkPolicy, or of its `kind` (`NetworkPolicy.projectcalico.org` where a group must be
said); what is not `namespace`, `name`, `labels` or `specs` is its spec.

Pods without `ips` get one of each family, in the order they are written. `port` is `TCP 443`,
`ICMP 8 0` or `47`; without it, TCP 80. `family` is 4 or 6, `source_port` a number. `by` names the
policies that decide: of a denied flow, those that isolate the end that denies; else those whose
rules allow; or `default`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from policyc.compiler.frontend import ReadOptions, read_scenario
from policyc.compiler.frontend.flows.reading import (
    FlowRequest,
    UniverseIndex,
)
from policyc.compiler.frontend.lowered import Channel, Profile, Unsupported
from policyc.compiler.frontend.object_kinds import (
    ROLES,
    Role,
)
from policyc.ir.diagnostics import Report
from policyc.ir.policy import NEVER, PolicySet
from policyc.ir.semantics import DecidedByRule, DeniedByDefault, Verdict
from policyc.ir.spans import NOWHERE
from policyc.ir.universe import Flow, Universe

FOLDER = Path(__file__).parent / "verdict"


@dataclass(frozen=True)
class ExpectedFlow:
    """A flow and its verdict, `allow` or `deny`; `by` empty where the case does not say."""

    flow: Flow
    verdict: str
    by: str


@dataclass(frozen=True)
class VerdictCase:
    """One case, read: the same values that the front end gives for files."""

    slug: str
    title: str
    semantics: tuple[str, ...]
    objects: tuple[dict[str, Any], ...]
    policies: PolicySet
    universe: Universe
    flows: tuple[ExpectedFlow, ...]
    is_for_all_engines: bool = True


def engine_cases() -> tuple[VerdictCase, ...]:
    """The cases that every engine can decide; without host interfaces, no node is under host policy."""
    return tuple(
        case if _has_hosts(case) else replace(case, policies=_without_hosts(case.policies))
        for case in load_cases()
        if case.is_for_all_engines
    )


def _has_hosts(case: VerdictCase) -> bool:
    return any(node.host is not None for node in case.universe.nodes)


def _without_hosts(policies: PolicySet) -> PolicySet:
    return PolicySet(
        tuple(
            replace(tier, policies=tuple(replace(p, hosts=NEVER) for p in tier.policies))
            for tier in policies.tiers
        )
    )


@cache
def load_cases() -> tuple[VerdictCase, ...]:
    """Every case of every file, sorted by file, then in the order written."""
    return tuple(
        _case(f"{path.stem}-{index}", written)
        for path in sorted(FOLDER.glob("*.yaml"))
        for index, written in enumerate(yaml.load(path.read_text(), yaml.CSafeLoader))
    )


def deciders(verdict: Verdict) -> str:
    """The `by` of a case: sorted names of policies, or `default`."""
    if verdict.action.is_deny:
        ends = [verdict.egress if verdict.egress.action.is_deny else verdict.ingress]
    else:
        ends = [verdict.egress, verdict.ingress]
    names: set[str] = set()
    for end in ends:
        match end.decider:
            case DecidedByRule(policy=policy):
                names.add(policy.qualified_name)
            case DeniedByDefault(policies=policies):
                names.update(policy.qualified_name for policy in policies)
    return ", ".join(sorted(names)) or "default"


def _case(slug: str, written: dict[str, Any]) -> VerdictCase:
    objects = tuple(_objects(written))
    policies, cluster = read_scenario(slug, objects, _options(written.get("options", {})))
    index = UniverseIndex(cluster.universe)
    flows = tuple(_expected(flow, index) for flow in written["flows"])
    return VerdictCase(
        slug,
        written["case"],
        tuple(written["semantics"]),
        objects,
        policies,
        cluster.universe,
        flows,
        written.get("engines", "all") == "all",
    )


def _options(written: dict[str, str]) -> ReadOptions:
    return ReadOptions(
        channel=Channel(written.get("channel", "experimental")),
        profile=Profile(written["profile"]) if "profile" in written else None,
        unsupported=Unsupported(written.get("unsupported", "error")),
    )


def _objects(written: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The Kubernetes objects that a case stands for."""
    yield from cluster_objects(written)
    yield from (policy_object(policy) for policy in written["policies"])


def cluster_objects(written: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that are not policies."""
    for name, labels in written.get("namespaces", {}).items():
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": _named(name, labels=labels)}
    for number, (name, pod) in enumerate(written.get("pods", {}).items(), start=1):
        yield _pod(name, pod or {}, number)
    for name, node in written.get("nodes", {}).items():
        addresses = [{"type": "InternalIP", "address": ip} for ip in node.get("ips", [])]
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _named(name, labels=node.get("labels")),
            "status": {"addresses": addresses},
        }
    for qualified, spec in written.get("services", {}).items():
        namespace, _, name = qualified.partition("/")
        metadata = _named(name, namespace=namespace, labels=spec.pop("labels", None))
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    for qualified, labels in written.get("service_accounts", {}).items():
        namespace, _, name = qualified.partition("/")
        metadata = _named(name, namespace=namespace, labels=labels)
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


_BESIDE_SPEC = ("kind", "namespace", "name", "labels", "specs")


def policy_object(policy: dict[str, Any]) -> dict[str, Any]:
    """The object of a policy, or an object that policies refer to."""
    version, kind = _type_of(policy.get("kind", "NetworkPolicy.networking.k8s.io"))
    spec = {k: v for k, v in policy.items() if k not in _BESIDE_SPEC}
    metadata = _named(
        policy["name"], namespace=policy.get("namespace"), labels=policy.get("labels")
    )
    found = {"apiVersion": version, "kind": kind, "metadata": metadata}
    if spec or "specs" not in policy:
        found["spec"] = spec
    return found | {"specs": policy["specs"]} if "specs" in policy else found


def _type_of(written: str) -> tuple[str, str]:
    """(apiVersion, kind) of `Kind` or `Kind.group`; the last version where there are several."""
    kind, _, group = written.partition(".")
    return max(
        (version, name)
        for (version, name), role in ROLES.items()
        if role is Role.POLICY and name == kind and version.startswith(f"{group}/" if group else "")
    )


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **{key: value for key, value in more.items() if value is not None}}


def _pod(qualified: str, pod: dict[str, Any], number: int) -> dict[str, Any]:
    namespace, _, name = qualified.partition("/")
    metadata = _named(name, namespace=namespace, labels=pod.get("labels"))
    spec: dict[str, Any] = {"containers": [{"name": "c", "ports": _ports(pod.get("ports", {}))}]}
    spec |= {"hostNetwork": pod.get("hostNetwork", False), "nodeName": pod.get("node", "")}
    spec |= pod.get("spec", {})
    if pod.get("template"):
        template = {"metadata": {"labels": pod.get("labels", {})}, "spec": spec}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": _named(name, namespace=namespace),
            "spec": {"template": template},
        }
    ips = pod.get("ips", [f"10.0.0.{number}", f"fd00::{number}"])
    status = pod.get("status", {"podIPs": [{"ip": ip} for ip in ips]})
    found = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return found if status is None else found | {"status": status}


def _ports(ports: dict[str, int | str]) -> list[dict[str, Any]]:
    """`{http: 8080, dns: UDP 53}` as container ports."""
    found = []
    for name, port in ports.items():
        protocol, _, number = str(port).rpartition(" ")
        entry = {"name": name, "containerPort": int(number), "protocol": protocol or "TCP"}
        found.append(entry)
    return found


def _expected(written: dict[str, Any], index: UniverseIndex) -> ExpectedFlow:
    protocol, *numbers = str(written.get("port", "TCP 80")).split()
    values = [int(number) for number in numbers]
    is_icmp = protocol.lower().startswith("icmp")
    request = FlowRequest(
        name=f"{written['from']} -> {written['to']}",
        span=NOWHERE,
        src=written["from"],
        dst=written["to"],
        protocol=protocol,
        port=values[0] if values and not is_icmp else None,
        icmp_type=values[0] if values and is_icmp else None,
        icmp_code=values[1] if len(values) > 1 else None,
        family=written.get("family"),
        source_port=written.get("source_port"),
    )
    report = Report()
    flow = index.flow(request, report)
    assert flow is not None, report.findings
    return ExpectedFlow(flow, written["verdict"], written.get("by", ""))
