# SPDX-License-Identifier: Apache-2.0
"""Target projectcalico.org/v3: Tiers, NetworkPolicies and GlobalNetworkPolicies (semantics D41 to D43).

A tier that denies whatever its policies isolate ends in Deny, with `types` for the isolated directions.
A tier that does not deny it, or that has rules where it does not isolate, ends in Pass, with its
defaults as rules. Global policies always have a namespaceSelector, so that they apply to pods; only host
policies have none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from policyc.backends.policies.calico_rules import (
    Place,
    api_rules,
    matches_outsiders_but_pods,
)
from policyc.backends.policies.calico_selectors import (
    asked_by,
    conjuncts,
    namespace_selector,
    of_hosts,
    of_named,
    of_workloads,
    only_namespace,
    to_text,
)
from policyc.backends.policies.normal_form import UnsayableError
from policyc.backends.policies.target import (
    Inexpressible,
    InexpressibleError,
    Names,
    Object,
    of_policy,
    of_rule,
)
from policyc.ir.passes.explicit import (
    DENIES,
    explicit,
)
from policyc.ir.policy import (
    NETWORK_POLICY_TIER,
    NEVER,
    Action,
    Condition,
    Direction,
    Policy,
    PolicySet,
    Tier,
    TierMode,
)
from policyc.ir.selectors import as_condition
from policyc.ir.spans import Origin

API_VERSION = "projectcalico.org/v3"
DEFAULT, DEFAULT_ORDER = "default", 1_000_000
"""Calico's own tier, which contains NetworkPolicies; it ends in Deny."""
STEP = 100
_NAMES = {"kube-admin": "admin", "kube-baseline": "baseline"}
"""Tiers that Calico reserves for Kubernetes' policies, under other names in other versions."""
_RESERVED = ("default", "kube-admin", "kube-baseline", "adminnetworkpolicy",
             "baselineadminnetworkpolicy")  # fmt: skip
_TYPES = {Direction.INGRESS: "Ingress", Direction.EGRESS: "Egress"}
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_TIER = 40
_ACTIONS = {Action.DENY: "Deny", Action.PASS: "Pass"}


def to_calico(policies: PolicySet) -> list[Object]:
    """Calico's objects with the same meaning, tier by tier; raises InexpressibleError."""
    frames = list(_frames([tier for tier in policies.tiers if tier.policies]))
    found: dict[tuple[Origin, str], Inexpressible] = {}
    objects: list[Object] = []
    for frame in frames:
        writer = _TierWriter(frame)
        written = list(writer.objects())
        for each in writer.found:  # a policy may be written in parts
            found.setdefault((each.origin, each.why), each)
        if written:
            objects += [*frame.objects(), *written]
    if found:
        raise InexpressibleError(found.values())
    return objects


@dataclass(frozen=True, slots=True)
class _Frame:
    """A tier as it will be written: its name and order in Calico, its policies with their `types`."""

    name: str
    order: int
    tier: Tier

    def objects(self) -> Iterator[Object]:
        """The Tier, unless Calico has it anyway."""
        if self.name != DEFAULT:
            spec = {"order": self.order, "defaultAction": _ACTIONS[self.tier.unmatched]}
            yield _object("Tier", {"name": self.name}, spec)


def _frames(tiers: list[Tier]) -> Iterator[_Frame]:
    """Ascending orders; the first tier that can be Calico's own keeps that tier's order."""
    formed = [_formed(tier) for tier in tiers]
    default = next((at for at, tier in enumerate(formed) if _is_default(tier)), len(formed))
    names = Names()
    for name in _RESERVED:
        names.name(name)
    for at, tier in enumerate(formed):
        if at == default:
            yield _Frame(DEFAULT, DEFAULT_ORDER, tier)
            continue
        wanted = _NAMES.get(tier.name, tier.name).replace(".", "-")[:_LONGEST_TIER]
        order = (at + 1) * STEP if at < default else DEFAULT_ORDER + (at - default) * STEP
        yield _Frame(names.name(wanted), order, tier)


def _is_default(tier: Tier) -> bool:
    return tier.unmatched is Action.DENY and tier.name in (DEFAULT, NETWORK_POLICY_TIER)


def _formed(tier: Tier) -> Tier:
    """The form of Calico's tiers: first-match, and every policy isolates where it has rules."""
    if tier.unmatched is Action.DENY and all(_ruled(p) <= p.isolates for p in tier.policies):
        return replace(tier, mode=TierMode.FIRST_MATCH, policies=tuple(_in_order(tier)))
    plain = explicit(tier)
    return replace(plain, policies=tuple(replace(p, isolates=_ruled(p)) for p in plain.policies))


def _ruled(policy: Policy) -> frozenset[Direction]:
    return frozenset(direction for direction in Direction if policy.rules(direction))


def _in_order(tier: Tier) -> list[Policy]:
    """The policies with the directions they isolate; where denies win, policies with denies first."""
    if tier.mode is TierMode.FIRST_MATCH:
        return [policy for policy in tier.policies if policy.isolates]
    first: list[Policy] = []
    then: list[Policy] = []
    for policy in tier.policies:
        denies, rest = _rules(policy, True), _rules(policy, False)
        if _ruled(denies) and _ruled(rest) and len(tier.policies) > 1:
            first.append(replace(denies, name=f"{policy.name}-{DENIES}", isolates=_ruled(denies)))
            then.append(rest)
        elif policy.isolates:
            ingress, egress = denies.ingress + rest.ingress, denies.egress + rest.egress
            whole = replace(policy, ingress=ingress, egress=egress)
            (first if _ruled(denies) else then).append(whole)
    return first + then


def _rules(policy: Policy, denies: bool) -> Policy:
    """The policy with only its rules that deny, or only the others."""
    ingress, egress = (
        tuple(rule for rule in policy.rules(d) if rule.action.is_deny is denies) for d in Direction
    )
    return replace(policy, ingress=ingress, egress=egress)


class _TierWriter:
    """Writes the policies of one tier; inexpressible rules are collected in `found`."""

    def __init__(self, frame: _Frame) -> None:
        self.found: list[Inexpressible] = []
        self._frame = frame
        self._names = Names()
        self._order = 0

    def objects(self) -> Iterator[Object]:
        """The policies by ascending order."""
        for policy in self._frame.tier.policies:
            try:
                subject = _subject(policy)
            except UnsayableError as failure:
                self.found.append(of_policy(policy, f"in its subject, {failure}"))
                subject = None
            spec = self._rules(policy, subject or _Subject(None, {}))
            is_idle = self._frame.tier.unmatched is Action.PASS and not spec
            if subject is not None and not is_idle:
                yield self._object(policy, subject, spec)

    def _rules(self, policy: Policy, subject: "_Subject") -> Object:
        out: Object = {}
        for direction in Direction:
            place = Place(direction, subject.home, policy.hosts != NEVER)
            rules: list[Object] = []
            for rule in policy.rules(direction):
                try:
                    rules += api_rules(rule, place)
                except UnsayableError as failure:
                    self.found.append(of_rule(policy, rule, str(failure)))
            if rules:
                out[direction.value] = rules
        return out

    def _object(self, policy: Policy, subject: "_Subject", rules: Object) -> Object:
        self._order += STEP
        spec: Object = {"tier": self._frame.name, "order": self._order}
        spec |= subject.fields
        spec["types"] = [_TYPES[d] for d in Direction if d in policy.isolates]
        if subject.home is None:
            return _object("GlobalNetworkPolicy", {"name": self._name(policy, "")}, spec | rules)
        metadata = {"name": self._name(policy, subject.home), "namespace": subject.home}
        return _object("NetworkPolicy", metadata, spec | rules)

    def _name(self, policy: Policy, namespace: str) -> str:
        """`TIER.NAME`, as older versions require; in the default tier a name without dots."""
        tier = self._frame.name
        name = policy.name.removeprefix(f"{tier}.").replace(".", "-")
        if policy.namespace and policy.namespace != namespace:
            name = f"{policy.namespace}-{name}"
        return self._names.name(name if tier == DEFAULT else f"{tier}.{name}", namespace)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The selectors of a policy; `home` is the namespace of a namespaced one."""

    home: str | None
    fields: Object


def _subject(policy: Policy) -> _Subject | None:
    """None if it selects no endpoint."""
    if policy.hosts != NEVER:
        return _hosts_and_pods(policy)
    asked = asked_by(as_condition(policy.subject))
    if asked is None:
        return None
    home = _home(policy, asked.namespaces)
    if home is not None:
        parts = asked.labels + [p for p in asked.namespaces if only_namespace(p) != home]
        fields: Object = {"selector": to_text(parts, of_workloads)}
    else:
        fields = {"selector": to_text(asked.labels, of_workloads)} if asked.labels else {}
        fields["namespaceSelector"] = namespace_selector(asked.namespaces)
    if asked.accounts:
        fields["serviceAccountSelector"] = to_text(asked.accounts, of_named)
    return _Subject(home, fields)


def _home(policy: Policy, parts: list[Condition]) -> str | None:
    """The policy's only namespace, if a policy in that namespace can express its rules."""
    rules = (*policy.ingress, *policy.egress)
    if any(matches_outsiders_but_pods(rule) for rule in rules):
        return None
    names = [name for part in parts if (name := only_namespace(part)) is not None]
    return next((name for name in names if _DNS_LABEL.fullmatch(name)), None)


def _hosts_and_pods(policy: Policy) -> _Subject:
    """One selector for both; without the selectors that would exclude hosts."""
    pods, hosts = conjuncts(as_condition(policy.subject)), conjuncts(policy.hosts)
    asked = {to_text([part], of_workloads) for part in pods}
    if asked != {to_text([part], of_hosts) for part in hosts}:
        raise UnsayableError("it selects host interfaces and pods by different labels")
    return _Subject(None, {"selector": to_text(pods, of_workloads)})


def _object(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
