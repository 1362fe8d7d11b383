# SPDX-License-Identifier: Apache-2.0
"""Programs that limit and log are proved; a program with an effect that no rule has is refuted."""

from functools import cache

import pytest

from policyc.compiler.driver.compile import objects
from policyc.compiler.driver.compile.target import Backend
from tests.kernel_corpus.case import CorpusCase
from tests.unit.verifier.translation.generations import (
    Made,
    made_of,
)
from tests.unit.verifier.translation.wrong_programs import (
    lemma_of,
    refutation,
)

pytestmark = pytest.mark.thorough

RULES = {
    "limit": "ingress:\n  allow tcp/80 from any limit 10/s\n",
    "log": "ingress:\n  allow tcp/80 from any log\negress:\n  deny udp to any log\n",
    "limit and log": "ingress:\n  allow tcp/80 from any limit 10/s log\n",
}


@cache
def asking(what: str, backend: Backend = Backend.C) -> Made:
    """A generation whose rules have that effect."""
    policy = {
        "apiVersion": "policyc.dev/v1alpha1",
        "kind": "ExtendedPolicy",
        "metadata": {"name": "slow", "namespace": "shop"},
        "spec": {"tier": 100, "appliesTo": "all", "rules": RULES[what]},
    }
    return made_of(CorpusCase(what, what, (policy,)), backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", Backend)
@pytest.mark.parametrize("what", RULES)
def test_effects_are_those_of_rules(what: str, backend: Backend) -> None:
    case = asking(what, backend)
    lemma = lemma_of(case, case.object)
    assert [(failed.claim.what, failed.case.title) for failed in lemma.failed()] == []
    said = {claim.what for claim in lemma.claims()}
    assert ("pc_limits is changed for a flow without a limit" in said) == ("limit" in what)
    assert ("an event is told of a flow that no rule logs" in said) == ("log" in what)


def test_every_claim_about_limits_holds() -> None:
    """The other claims about such a program, of which verdicts take longest, are slow tests."""
    case = asking("limit", Backend.LLVM)
    lemma = lemma_of(case, case.object)
    claims = [claim for claim in lemma.claims() if "pc_limits" in claim.what]
    assert "pc_limits is changed for a flow without a limit" in {claim.what for claim in claims}
    assert [claim.what for claim, _ in lemma.brought_together(lemma.flows).broken(claims)] == []


WRONG = {
    "a limit for everybody": (
        "limit", "effects.h", "effect->kinds & kind ?", "(effect->kinds | kind) ?"
    ),
    "a limit of what goes on": ("limit", "limit.h", "flow->action.entry_op != PC_ENTRY_INSERT", "false"),
    "a limit of the other bit": ("limit", "effects.h", "PC_EFFECT_LIMIT    2", "PC_EFFECT_LIMIT    1"),
    "events of everybody": (
        "log", "effects.h", "effect->kinds & kind ?", "(effect->kinds | kind) ?"
    ),
    "an event with another rule": (
        "log", "events.h", "event->egress_rule = egress_rule;", "event->egress_rule = ingress_rule;"
    ),
    "an event of another end": (
        "log", "events.h", "event->src = flow->src.id;", "event->src = flow->dst.id;"
    ),
    "a limit of the denied": (
        "limit", "policy_run.h", "PC_LIMITS && decision.allowed &&", "PC_LIMITS &&"
    ),
}  # fmt: skip
"""What is wrong -> whose program, the header, what stands there, and what in its place."""


def test_each_fault_changes_code_that_is_there() -> None:
    """Only slow tests apply the faults, and they would notice a missing place last."""
    headers = objects.datapath_files()
    counts = {fault: headers[f].decode().count(right) for fault, (_, f, right, _) in WRONG.items()}
    assert counts == dict.fromkeys(WRONG, 1)


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_effects_without_a_rule_are_refuted(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    what, name, right, wrong = WRONG[fault]
    headers = objects.datapath_files()
    text = headers[name].decode()
    assert text.count(right) == 1, f"{name} does not say `{right}` once"
    changed = {**headers, name: text.replace(right, wrong).encode()}
    monkeypatch.setattr(objects, "datapath_files", lambda: changed)
    case = asking(what)
    text = f"/* {fault} */\n{case.emitted.c}"  # or what was compiled before would do
    assert refutation(case, objects._compiled("policy.bpf.c", text)[0])
