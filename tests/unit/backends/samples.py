# SPDX-License-Identifier: Apache-2.0
"""Results to be shown, made from real policies and the verdicts on real flows."""

from dataclasses import replace
from ipaddress import ip_address

from policyc.ir.diagnostics import Note, Severity
from policyc.ir.policy import (
    ANY_PEER,
    NETWORK_POLICY,
    NETWORK_POLICY_TIER,
    Action,
    AnyService,
    Direction,
    EndpointSelector,
    Policy,
    PolicySet,
    Rule,
    Tier,
    TierMode,
)
from policyc.ir.results.check import CheckResult, CheckRule, Suppressed
from policyc.ir.results.common import Evidence, Finding, Place, UniverseUsed, Witness
from policyc.ir.results.diff import Difference, DifferenceKind, DiffOutcome, DiffResult, counts_of
from policyc.ir.results.places import key_of_rule, place_of_rule, places_of
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult
from policyc.ir.semantics import verdict
from policyc.ir.services import Service
from policyc.ir.spans import Origin, Span
from policyc.ir.universe import ContainerPort, Endpoint, Flow

NASTY = "|`x`|\n<b>@octocat</b> #1 [l](http://e.org) *_~ \x1b[31m $x$ www.e.org 'q'"
"""What a name must not do to any format."""


def span(line: int, file: str = "policies/web.yaml") -> Span:
    return Span(file, line, 7, 15)


def rule(name: str, line: int) -> Rule:
    origin = Origin(span(line), "spec.ingress[0]")
    return Rule(Action.ALLOW, (ANY_PEER,), (AnyService(),), origin, name=name)


def policy(name: str, line: int, *rules: Rule) -> Policy:
    ingress = frozenset({Direction.INGRESS})
    origin = Origin(span(line), "metadata.name")
    subject = EndpointSelector("shop")
    return Policy(NETWORK_POLICY, "shop", name, subject, ingress, rules, (), origin)


def policies(*held: Policy) -> PolicySet:
    return PolicySet((Tier(NETWORK_POLICY_TIER, TierMode.DENY_WINS, Action.DENY, held),))


POD = Endpoint(
    "shop",
    "web",
    {"app": "web"},
    {"kubernetes.io/metadata.name": "shop", "team": "a"},
    (ContainerPort("http", "TCP", 8080),),
    (ip_address("10.0.0.1"),),
)
FLOW = Flow(ip_address("192.0.2.1"), POD, Service(6, 8080), 4)
DENIED, OPEN = policy("closed", 3), policy("open", 20, rule("all", 24))
BEFORE, AFTER = policies(DENIED), policies(DENIED, OPEN)
WITNESS = Witness(FLOW, (("before", verdict(BEFORE, FLOW)), ("after", verdict(AFTER, FLOW))))
UNIVERSE = UniverseUsed("symbolic", "every pod, label and address that could exist")
EVIDENCE = Evidence("one query over the whole formula", (("z3", "4.13.0"),), 2, 1)


def difference(
    text: str = "any address", kind: DifferenceKind = DifferenceKind.WIDENED
) -> Difference:
    before, after = (found.ingress.decider for _, found in WITNESS.verdicts)
    services = ("TCP 8080", "UDP")
    witness = WITNESS
    return Difference(
        kind, text, "[shop: app=web]", services, Direction.INGRESS, witness,
        places_of(before), places_of(after), 7,
    )  # fmt: skip


def diff(text: str = "any address", count: int = 1, omitted: int = 0) -> DiffResult:
    found = tuple(difference(f"{text} {at}" if at else text) for at in range(count))
    notes = (f"a note about {text}",)
    outcome = DiffOutcome.WIDENED
    counts = counts_of([DifferenceKind.WIDENED] * (count + omitted))
    return DiffResult(outcome, UNIVERSE, EVIDENCE, found, counts, notes, "git:main", text)


EQUAL = DiffResult(DiffOutcome.EQUAL, UNIVERSE, EVIDENCE)
GAVE_UP = DiffResult(DiffOutcome.UNDECIDED, UNIVERSE, EVIDENCE, undecided="z3: timeout after 60 s")


def finding(text: str = "is shadowed", line: int = 24) -> Finding:
    moved = replace(OPEN, ingress=(rule("all", line),))
    place = place_of_rule(moved, moved.ingress[0])
    key = key_of_rule(moved, Direction.INGRESS, 0, "shadowed")
    notes = (Note(span(9), f"shadowed by this: {text}"),)
    return Finding(
        "PC2001", Severity.WARNING, f"the rule {text}", f"because {text}", place, key, notes,
        f"remove it: {text}", Witness(FLOW, (("", verdict(AFTER, FLOW)),)),
    )  # fmt: skip


def check(text: str = "is shadowed", count: int = 1) -> CheckResult:
    quiet = Suppressed(finding("is quiet"), text, Place(span(23), "", "a comment"))
    together = tuple(Place(span(at), f"spec.ingress[{at}]", text) for at in range(1, count + 1))
    rules = (CheckRule("PC2001", "a shadowed rule", "Remove it."),)
    return CheckResult(
        tuple(finding(text) for _ in range(count)), UNIVERSE, EVIDENCE, (quiet,), together,
        (f"a note about {text}",), (f"whether {text}",), 2, 1, rules,
    )  # fmt: skip


CLEAN = CheckResult((), UNIVERSE, EVIDENCE, n_policies=2, n_rules=1)


def verify(text: str = "no way in", count: int = 1) -> VerifyResult:
    place = Place(span(2, "a.intent"), "", text)
    answers = [
        IntentAnswer(status, text, f"never {text}", place, f"key {status.value}", text, text)
        for status in IntentStatus
    ]
    after = WITNESS.verdicts[1][1].ingress.decider
    broken = replace(answers[1], witness=WITNESS, responsible=places_of(after))
    return VerifyResult((answers[0], broken, *answers[2:]) * count, UNIVERSE, EVIDENCE, (text,))
