# SPDX-License-Identifier: Apache-2.0
"""`policyc explain` prints the expected text for flows that need each of its sentences.

`make golden` rewrites the expected texts; reviewers read the difference.
"""

import json
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.ir.results.explain import RuleRole
from policyc.ir.semantics import DecidedByRule
from policyc.verifier.explain.explanation import explain
from tests.golden.verdict_cases import VerdictCase, load_cases

HERE = Path(__file__).parent / "explain"
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "explain-v1.schema.json"
INPUT = ["-f", "policies.yaml", "--cluster", "cluster.yaml"]
FLOWS = {
    "passed-then-allowed": "shop/web data/db tcp/5432",
    "inside-an-except": "shop/web 10.66.1.1 tcp/443",
    "denied-by-a-rule": "shop/web 169.254.169.254 tcp/80",
    "named-port-on-an-address": "shop/web 10.9.9.9 tcp/5432",
    "ping-of-an-isolated-pod": "data/db shop/web icmp",
    "from-its-node": "data/agent shop/web tcp/80",
    "to-a-host-network-pod": "shop/web data/agent tcp/443",
    "to-itself": "shop/web shop/web tcp/80",
    "an-address-nobody-knows": "shop/web data/batch tcp/443",
}


def shown(flow: str, *more: str, capfd: pytest.CaptureFixture[str]) -> str:
    assert run(["explain", *flow.split(), *INPUT, *more]) == 0
    return capfd.readouterr().out


def compare(golden: Path, text: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert golden.read_text() == text, f"{golden}: `make golden` rewrites it"


@pytest.mark.parametrize("name", FLOWS)
def test_an_explanation_in_words_is_as_written_down(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(HERE)
    compare(HERE / f"{name}.txt", shown(FLOWS[name], capfd=capfd), request)


@pytest.mark.parametrize("name", FLOWS)
def test_a_json_explanation_is_valid_and_equals_the_text(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE)
    found = json.loads(shown(FLOWS[name], "--format", "json", capfd=capfd))
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    run(["eval", *FLOWS[name].split(), *INPUT, "--format", "json"])
    answer = json.loads(capfd.readouterr().out)
    assert found["verdict"] == answer["verdict"]
    for end in ("egress", "ingress"):
        deciders = [walk["by"] for walk in found[end]]
        assert answer[end]["rule"] in (*deciders, None)


def test_an_explanation_as_json_is_as_written_down(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(HERE)
    name = "inside-an-except"
    text = shown(FLOWS[name], "--format", "json", capfd=capfd)
    compare(HERE / f"{name}.json", text, request)


def test_every_rule_is_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE)
    flow = FLOWS["inside-an-except"]
    usual, full = shown(flow, capfd=capfd), shown(flow, "--all", capfd=capfd)
    assert "spec.egress[1] does not match" not in usual and "1 other rule does not match" in usual
    assert "spec.egress[1] does not match" in full and "other rule" not in full


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.slug)
def test_every_explanation_names_the_deciding_rule(case: VerdictCase) -> None:
    for expected in case.flows:
        made = explain(case.policies, expected.flow)
        assert made.verdict.action.is_deny == (expected.verdict == "deny"), case.title
        for walk in (made.egress, made.ingress):
            decides = [
                (rule.place.span, rule.place.path)
                for tier in walk.tiers
                for policy in tier.policies
                for rule in policy.rules
                if rule.role is RuleRole.DECIDES
            ]
            by = walk.verdict.decider
            origin = by.rule.origin if isinstance(by, DecidedByRule) else None
            assert decides == ([] if origin is None else [(origin.span, origin.path)])
