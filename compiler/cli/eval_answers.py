# SPDX-License-Identifier: Apache-2.0
"""Verdicts on flows whose ends may not be fully known, and how they are shown.

What a policy means is decided by `ir/semantics.py` alone; here it is asked once for every way the
unknown parts of an end could turn out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address
from typing import assert_never

from policyc.compiler.frontend import codes
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import AddressPeer, Direction, Policy, PolicySet, Rule
from policyc.ir.semantics import (
    AllowedByDefault,
    DecidedByRule,
    Decider,
    DeniedByDefault,
    EndVerdict,
    selects,
    verdict,
)
from policyc.ir.spans import Span
from policyc.ir.universe import Address, End, Endpoint, Flow

ALLOW, DENY, UNKNOWN = "allow", "deny", "unknown"


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """What one end says: allow, deny or unknown; `decider` None where it is not the same one."""

    verdict: str
    decider: Decider | None

    def to_json(self) -> dict[str, object]:
        """As `--format json` shows it."""
        return {"verdict": self.verdict, "rule": _decider_to_json(self.decider)}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one flow; `unknown` names the ends and properties that it depends on."""

    flow: Flow
    egress: EndAnswer
    ingress: EndAnswer
    verdict: str
    unknown: tuple[tuple[Endpoint, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """As `--format json` shows it."""
        return {
            "egress": self.egress.to_json(),
            "ingress": self.ingress.to_json(),
            "verdict": self.verdict,
        }

    def findings(self, name: str, span: Span) -> list[Diagnostic]:
        """Why the verdict is unknown, if it is."""
        return [
            codes.DEPENDS_ON_UNKNOWN.at(span, flow=name, what=what, name=end.qualified_name).help(
                "give a live Pod with status.podIP, or ask about one address"
            )
            for end, what in self.unknown
        ]


def answer(policies: PolicySet, flow: Flow) -> Answer:
    """The verdict; unknown where it depends on what is not known about an end (A25)."""
    flow = _between_replicas(flow)
    egress = [verdict(policies, case).egress for case in _cases_of_dst(policies, flow)]
    ingress = [verdict(policies, case).ingress for case in _cases_of_src(policies, flow)]
    outcomes = {_word(e) if e.action.is_deny else _word(i) for e in egress for i in ingress}
    out, into = _end_answer(egress), _end_answer(ingress)
    combined = outcomes.pop() if len(outcomes) == 1 else UNKNOWN
    if combined != UNKNOWN:
        return Answer(flow, out, into, combined)
    return Answer(flow, out, into, UNKNOWN, tuple(_reasons(flow, out, into)))


def _between_replicas(flow: Flow) -> Flow:
    """From a template to itself runs from one replica to another: the same pod would be trivial."""
    if isinstance(flow.dst, Endpoint) and flow.dst.is_template and flow.src == flow.dst:
        return replace(flow, dst=replace(flow.dst, name=f"{flow.dst.name} (another replica)"))
    return flow


def _cases_of_dst(policies: PolicySet, flow: Flow) -> list[Flow]:
    """The egress verdict reads the destination's address, and of the source only what is known."""
    if flow.src == flow.dst:
        return [flow]
    ends = _resolved(policies, flow.dst, flow.src, Direction.EGRESS, flow.family)
    return [replace(flow, dst=end) for end in ends]


def _cases_of_src(policies: PolicySet, flow: Flow) -> list[Flow]:
    """The ingress verdict reads the source's address, and whether it is the destination's node."""
    if flow.src == flow.dst:
        return [flow]
    ends = _resolved(policies, flow.src, flow.dst, Direction.INGRESS, flow.family)
    return [*(replace(flow, src=end) for end in ends), *_on_one_node(flow)]


def _on_one_node(flow: Flow) -> Iterator[Flow]:
    """A hostNetwork source that is not scheduled yet may land on the destination's node (A22)."""
    src, dst = flow.src, flow.dst
    if _may_share_node(src, dst):
        assert isinstance(src, Endpoint) and isinstance(dst, Endpoint)
        node = src.node or dst.node or "<some node>"
        yield replace(flow, src=replace(src, node=node), dst=replace(dst, node=node))


def _may_share_node(src: End, dst: End) -> bool:
    if not (isinstance(src, Endpoint) and isinstance(dst, Endpoint) and src.host_network):
        return False
    return not (src.node and dst.node)


def _resolved(
    policies: PolicySet, end: End, subject: End, direction: Direction, family: int
) -> list[End]:
    """The end as it is, or with one address of each region that the subject's rules tell apart."""
    if not isinstance(end, Endpoint) or end.addresses_known:
        return [end]
    starts = {0}
    for rule in _rules_of(policies, subject, direction):
        for peer in rule.peers:
            if isinstance(peer, AddressPeer) and peer.network.version == family:
                for network in (peer.network, *peer.excepts):
                    starts.add(int(network.network_address))
                    starts.add(int(network.broadcast_address) + 1)
    return [
        replace(end, addresses=(_address(start, family),), addresses_known=True)
        for start in sorted(starts)
        if start < 1 << (32 if family == 4 else 128)
    ]


def _address(number: int, family: int) -> Address:
    return IPv4Address(number) if family == 4 else IPv6Address(number)


def _rules_of(policies: PolicySet, subject: End, direction: Direction) -> Iterator[Rule]:
    if not isinstance(subject, Endpoint) or subject.host_network:
        return
    for tier in policies.tiers:
        for policy in tier.policies:
            if selects(policy.subject, subject):
                yield from policy.rules(direction)


def _word(end: EndVerdict) -> str:
    return DENY if end.action.is_deny else ALLOW


def _end_answer(cases: list[EndVerdict]) -> EndAnswer:
    words = {_word(case) for case in cases}
    first = cases[0].decider
    same = all(case.decider == first for case in cases)
    return EndAnswer(words.pop() if len(words) == 1 else UNKNOWN, first if same else None)


def _reasons(flow: Flow, egress: EndAnswer, ingress: EndAnswer) -> Iterator[tuple[Endpoint, str]]:
    """What would have to be known, at which end."""
    src, dst = flow.src, flow.dst
    if egress.verdict == UNKNOWN and isinstance(dst, Endpoint):
        yield dst, "the address"
    if ingress.verdict != UNKNOWN:
        return
    if isinstance(src, Endpoint) and not src.addresses_known:
        yield src, "the address"
    if _may_share_node(src, dst):
        for end in (src, dst):
            if isinstance(end, Endpoint) and not end.node:
                yield end, "the node"


def _decider_to_json(decider: Decider | None) -> dict[str, object] | None:
    match decider:
        case None:
            return None
        case DecidedByRule():
            origin = decider.rule.origin
            return {
                "kind": "rule",
                "policy": decider.policy.qualified_name,
                "path": origin.path,
                **_place(origin.span),
            }
        case DeniedByDefault(policies=policies):
            return {"kind": "default-deny", "policies": [_policy_to_json(p) for p in policies]}
        case AllowedByDefault(why=why):
            return {"kind": "default-allow", "why": why}
        case _:
            assert_never(decider)


def _policy_to_json(policy: Policy) -> dict[str, object]:
    return {"policy": policy.qualified_name, **_place(policy.origin.span)}


def _place(span: Span) -> dict[str, object]:
    return {"file": span.file, "line": span.line, "column": span.column}


def to_text(shown: Answer) -> str:
    """The answer for people: the verdict, then who decided it at each end."""
    lines = [f"{shown.flow}: {shown.verdict}"]
    for name, end in (("egress", shown.egress), ("ingress", shown.ingress)):
        lines.append(f"  {name:<7}  {end.verdict:<7}  {_decider_to_text(end.decider)}")
    return "\n".join(lines)


def _decider_to_text(decider: Decider | None) -> str:
    match decider:
        case None:
            return "by different rules, depending on what is not known"
        case DecidedByRule():
            origin = decider.rule.origin
            return f"rule {decider.policy.qualified_name} {origin.path} ({_where(origin.span)})"
        case DeniedByDefault(policies=policies):
            names = ", ".join(f"{p.qualified_name} ({_where(p.origin.span)})" for p in policies)
            return f"no rule allows it; isolated by {names}"
        case AllowedByDefault(why=why):
            return f"by default: {why}"
        case _:
            assert_never(decider)


def _where(span: Span) -> str:
    return str(span) if span.line else span.file
