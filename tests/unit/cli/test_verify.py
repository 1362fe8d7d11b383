# SPDX-License-Identifier: Apache-2.0
"""`policyc verify`: its exit codes, universes, formats, and its messages about wrong input."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.verifier.intents import intents as engine
from policyc.verifier.smt.solvers import (
    Answer,
    Decision,
    SolverAnswer,
)

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
SHOP = ["-f", str(EXAMPLES / "online-shop" / "policies"), "-f", str(EXAMPLES / "extended" / "policies"),
        "--cluster", str(EXAMPLES / "online-shop" / "cluster")]  # fmt: skip
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  policyTypes: [Ingress]
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{protocol: TCP, port: 5432}]
"""
HOLDS = """\
only tcp/5432 from namespace == "shop" && pod.app == "web"
  to namespace == "shop" && pod.app == "db" as "one"
"""
BROKEN = 'never tcp/5432 from pod.app == "web" to pod.app == "db" as "two" because "it is secret"\n'
VACUOUS = 'never any from entity host to pod.app == "db" as "three"\n'
TEMPLATE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: %(name)s, namespace: shop}
spec:
  selector: {matchLabels: {app: %(name)s}}
  template:
    metadata: {labels: {app: %(name)s}}
    spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "db.yaml").write_text(POLICY)
    return ["-f", str(tmp_path / "policies")]


def intents(tmp_path: Path, text: str, name: str = "i.intent") -> list[str]:
    (tmp_path / name).write_text(text)
    return ["--intents", str(tmp_path / name)]


def answers(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    shown = json.loads(capfd.readouterr().out)
    schema = json.loads((ROOT / "docs" / "schemas" / "verify-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    found: list[dict[str, Any]] = shown["intents"]
    return found


@pytest.mark.parametrize(
    ("text", "code"),
    [(HOLDS, 0), (BROKEN, 1), (VACUOUS, 1), (HOLDS + BROKEN, 1), (HOLDS + VACUOUS, 1)],
)
def test_the_exit_code_reflects_the_result(
    text: str, code: int, given: list[str], tmp_path: Path
) -> None:
    assert run(["verify", *given, *intents(tmp_path, text)]) == code


@pytest.mark.parametrize("others", ["", HOLDS])
def test_undecided_is_an_exit_code_of_its_own(
    others: str, given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gave_up = Decision((SolverAnswer("z3", "4", Answer.UNKNOWN, "too hard"),))
    monkeypatch.setattr(engine, "decide", lambda *_: gave_up)
    assert run(["verify", *given, *intents(tmp_path, BROKEN + others)]) == 3


def test_a_broken_intent_shows_the_flow_the_rule_and_the_reason(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", *given, *intents(tmp_path, BROKEN)]) == 1
    shown = capfd.readouterr().out
    assert "broken: two" in shown
    assert "it is secret" in shown
    assert "labels app=web" in shown
    assert "db.yaml:8:" in shown
    assert "every pod, node and address that could exist" in shown


@pytest.mark.parametrize("form", ["text", "json", "sarif", "markdown"])
def test_every_format_names_the_intent(
    form: str, given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = run(["verify", *given, *intents(tmp_path, HOLDS + BROKEN), "--format", form])
    shown = capfd.readouterr().out
    assert code == 1
    assert "two" in shown and "it is secret" in shown


def test_a_witness_names_real_pods_if_a_cluster_is_given(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    for name in ("web", "db"):
        (cluster / f"{name}.yaml").write_text(TEMPLATE % {"name": name})
    asked = [*given, *intents(tmp_path, BROKEN), "--format", "json"]
    assert run(["verify", *asked]) == 1
    (hypothetical,) = answers(capfd)
    assert run(["verify", *asked, "--cluster", str(cluster)]) == 1
    (real,) = answers(capfd)
    assert real["witness"]["flow"]["src"]["name"] == "web"
    assert hypothetical["witness"]["flow"]["src"]["name"] not in ("web", "db")
    assert run(["verify", *asked, "--cluster", str(cluster), "--universe", "symbolic"]) == 1
    (again,) = answers(capfd)
    assert again["witness"] == hypothetical["witness"]


def test_verify_proposes_pod_cidr_if_pod_networks_are_unknown(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.yaml").write_text(TEMPLATE % {"name": "web"})
    asked = [*given, *intents(tmp_path, BROKEN), "--cluster", str(tmp_path / "web.yaml")]
    run(["verify", *asked])
    assert "--pod-cidr" in capfd.readouterr().out
    run(["verify", *asked, "--pod-cidr", "10.0.0.0/8"])
    assert "--pod-cidr" not in capfd.readouterr().out


def test_an_intent_about_absent_ends_is_vacuous(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.yaml").write_text(TEMPLATE % {"name": "web"})
    asked = [*given, *intents(tmp_path, BROKEN), "--format", "json"]
    assert run(["verify", *asked, "--cluster", str(tmp_path / "web.yaml")]) == 1
    (found,) = answers(capfd)
    assert found["status"] == "vacuous"
    assert "`to`" in found["explanation"]


def test_pod_networks_narrow_what_could_exist(given: list[str], tmp_path: Path) -> None:
    text = 'never any from 10.1.0.0/16 to namespace == "shop" && pod.app == "db"\n'
    inside = ["--pod-cidr", "10.0.0.0/8"]
    assert run(["verify", *given, *intents(tmp_path, text)]) == 1
    assert run(["verify", *given, *intents(tmp_path, text), *inside]) == 1  # a web pod may be there
    away = ["--pod-cidr", "192.168.0.0/16"]
    assert run(["verify", *given, *intents(tmp_path, text), *away]) == 0


def test_intents_beside_policies_are_decided_once(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "\n    ".join(BROKEN.splitlines())
    beside = (
        "apiVersion: policyc.dev/v1alpha1\nkind: Intent\nmetadata: {name: x}\n"
        f"spec:\n  intents: |\n    {text}\n"
    )
    (tmp_path / "policies" / "intent.yaml").write_text(beside)
    others = intents(tmp_path, HOLDS)
    assert run(["verify", *given, *others, "--format", "json"]) == 1
    assert sorted(each["title"] for each in answers(capfd)) == ["one", "two"]
    again = [*others, "--intents", str(tmp_path / "policies")]
    assert run(["verify", *given, *again, "--format", "json"]) == 1
    assert sorted(each["title"] for each in answers(capfd)) == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("never tcp/5432 form all to all\n", "PC1"), ("", "PC1504"), (HOLDS + HOLDS, "PC1502")],
)
def test_wrong_intents_are_errors_with_a_place(
    text: str, code: str, given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", *given, *intents(tmp_path, text)]) == 2
    said = capfd.readouterr().err
    assert code in said and "i.intent" in said


def test_errors_of_policies_and_intents_are_reported_together(
    given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policies" / "db.yaml").write_text(POLICY.replace("5432", "70000"))
    assert run(["verify", *given, *intents(tmp_path, "never tcp/5432 form all to all\n")]) == 2
    said = capfd.readouterr().err
    assert "db.yaml:9:" in said and "i.intent:1:" in said


@pytest.mark.parametrize(
    "wrong",
    [
        ["--universe", "cluster"],
        ["--pod-cidr", "10.0.0.1/8"],
        ["--pod-cidr", "10.0.0.0"],
        ["--timeout", "0"],
        ["--timeout", "-1"],
        ["--solver", "cvc5"],
        ["--format", "yaml"],
    ],
)
def test_wrong_usage(wrong: list[str], given: list[str], tmp_path: Path) -> None:
    assert run(["verify", *given, *intents(tmp_path, HOLDS), *wrong]) == 2


def test_intents_and_policies_must_be_given(given: list[str], tmp_path: Path) -> None:
    assert run(["verify", *given]) == 2
    assert run(["verify", *intents(tmp_path, HOLDS)]) == 2
    assert run(["verify", *given, "--intents", str(tmp_path / "none.intent")]) == 2
    assert run(["verify", "-f", "-", "--intents", "-"]) == 2


@pytest.mark.parametrize("solver", ["bitwuzla", "both"])
def test_another_solver_agrees(
    solver: str, given: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["verify", *given, *intents(tmp_path, HOLDS + BROKEN), "--solver", solver]
    assert run([*asked, "--format", "json"]) == 1
    assert [each["status"] for each in answers(capfd)] == ["holds", "broken"]


def test_verify_gives_the_written_statuses_for_the_example(
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked = ["verify", *SHOP, "--intents", str(EXAMPLES / "extended"), "--format", "json"]
    assert run(asked) == 1
    found = {each["title"]: each["status"] for each in answers(capfd)}
    assert found == {
        "no-cloud-metadata": "holds",
        "no-remote-desktop": "holds",
        "orders-db-has-one-client": "holds",
        "ping": "broken",
        "staging-apart": "vacuous",
    }
    assert run([*asked, "--universe", "symbolic"]) == 1
    found = {each["title"]: each["status"] for each in answers(capfd)}
    assert found["no-cloud-metadata"] == "holds"
    assert found["orders-db-has-one-client"] == "broken"  # whoever has `handles-payment` gets in
    assert found["staging-apart"] == "broken"  # a namespace could be both
