# SPDX-License-Identifier: Apache-2.0
"""Opaque rules, through every command that answers about policies.

Two policies that ask for other domain names were "equal, certified by Z3", a rule with domain names was
"to be removed, proved", and `convert` left it out.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
RULE = "CiliumNetworkPolicy.cilium.io shop/web spec.egress[0]"
POLICY = """\
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  endpointSelector: {matchLabels: {app: web}}
  egress:
  - toFQDNs: [{matchName: NAME}]
    toPorts: [{ports: [{port: "443", protocol: TCP}]}]
"""
DATABASE = "  - toEndpoints: [{matchLabels: {app: db}}]\n"
TO_ADDRESS = "  - toCIDR: [198.51.100.0/24]\n"
SIDES = {
    "github": POLICY.replace("NAME", "api.github.com"),
    "same": "# the same\n" + POLICY.replace("NAME", '"api.github.com"'),
    "evil": POLICY.replace("NAME", "evil.example.com"),
    "with-db": POLICY.replace("NAME", "api.github.com") + DATABASE,
    "evil-with-db": POLICY.replace("NAME", "evil.example.com") + DATABASE,
    "db-twice": POLICY.replace("NAME", "api.github.com") + DATABASE + DATABASE,
    "with-address": POLICY.replace("NAME", "api.github.com") + TO_ADDRESS,
}
CLUSTER = """\
apiVersion: v1
kind: Namespace
metadata: {name: shop}
""" + "".join(
    f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}}}
spec: {{nodeName: n1, containers: [{{name: c}}]}}
status: {{podIP: 10.0.0.{number}}}
"""
    for number, name in enumerate(("web", "db"), 1)
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policyc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command with --unsupported=deny, in a folder with the sides above and `cluster.yaml`."""
    monkeypatch.chdir(tmp_path)
    for name, text in SIDES.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)

    def runs(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run([*arguments, "--unsupported", "deny"])
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return runs


def document(text: str, schema: str) -> Any:
    value = json.loads(text)
    found = json.loads((SCHEMAS / f"{schema}.schema.json").read_text())
    jsonschema.Draft202012Validator(found).validate(value)
    return value


UNIVERSES: tuple[tuple[str, ...], ...] = ((), ("--cluster", "cluster.yaml"))
universes = pytest.mark.parametrize("over", UNIVERSES, ids=["symbolic", "cluster"])


@universes
def test_other_domain_names_are_undecided(policyc: Run, over: tuple[str, ...]) -> None:
    for command in ("diff", "equiv"):
        code, out, _ = policyc(command, "github", "evil", *over)
        assert code == 3
        assert out.startswith("undecided")
        assert f"{RULE} (github/policy.yaml:7) asks for domain names" in out
        assert f"{RULE} (evil/policy.yaml:7) asks for domain names" in out


@pytest.mark.parametrize("form", ["text", "json", "sarif", "markdown"])
def test_every_format_names_the_rule(policyc: Run, form: str) -> None:
    code, out, _ = policyc("diff", "github", "evil", "--format", form)
    assert code == 3
    assert "policy.yaml" in out and "domain names" in out
    assert "undecided" in out


def test_json_of_a_diff_has_possible_differences(policyc: Run) -> None:
    found = document(policyc("diff", "github", "evil", "--format", "json")[1], "diff-v1")
    assert found["result"] == "undecided" and not found["differences"]
    assert {each["kind"] for each in found["possible"]} == {"widened", "narrowed"}
    assert [(each["side"], each["asks"]) for each in found["opaque"]] == [
        ("OLD", ["domain names"]),
        ("NEW", ["domain names"]),
    ]
    assert found["opaque"][0]["place"]["line"] == 7


@universes
def test_equal_domain_names_cancel(policyc: Run, over: tuple[str, ...]) -> None:
    """Neither layout nor quotes count."""
    for command in ("diff", "equiv"):
        code, out, _ = policyc(command, "github", "same", *over)
        assert code == 0 and out.startswith("equal")


@universes
def test_the_certificate_has_a_goal_for_each_reading(policyc: Run, over: tuple[str, ...]) -> None:
    code, out, _ = policyc("equiv", "with-db", "db-twice", *over, "--format", "json")
    found = document(out, "certificate-v2")
    assert (code, found["result"]) == (0, "equal")
    readings = {each["what"].partition(":")[0] for each in found["obligations"]}
    assert readings == {"reading 1 of 2", "reading 2 of 2"}
    assert [each["side"] for each in found["opaque"]] == ["OLD", "NEW"]


@universes
@pytest.mark.parametrize(("old", "new"), [("github", "with-db"), ("github", "evil-with-db")])
def test_diff_reports_a_certain_difference_beside_undecided_ones(
    policyc: Run, old: str, new: str, over: tuple[str, ...]
) -> None:
    code, out, _ = policyc("diff", old, new, *over, "--format", "json")
    found = document(out, "diff-v1")
    assert (code, found["result"]) == (1, "widened")
    assert [each["to"] for each in found["differences"]] == ["pods [shop: app=db]"]
    assert bool(found["possible"]) == (new == "evil-with-db")
    has_numbers = ["groups" in found, any("region" in each for each in found["differences"])]
    assert has_numbers == [False, not over], "each reading of a cluster has groups of its own"
    assert policyc("equiv", old, new, *over)[0] == 1


def test_addresses_that_a_domain_may_resolve_to_are_undecided(policyc: Run) -> None:
    """The new block is opened but for TCP 443, where the shared rule may have allowed it before."""
    code, out, _ = policyc("diff", "github", "with-address", "--format", "json")
    found = document(out, "diff-v1")
    assert (code, found["result"]) == (1, "widened")
    assert not any("TCP 443" in each["services"] for each in found["differences"])
    assert {each["kind"] for each in found["possible"]} <= {"widened"}


@pytest.mark.parametrize(
    ("fail_on", "code"), [("any", 3), ("widened", 3), ("narrowed", 3), ("none", 0)]
)
def test_fail_on_counts_possible_differences(policyc: Run, fail_on: str, code: int) -> None:
    assert policyc("diff", "github", "evil", "--fail-on", fail_on)[0] == code


@universes
def test_check_calls_no_opaque_rule_useless(policyc: Run, over: tuple[str, ...]) -> None:
    _, out, _ = policyc("check", "-f", "github", *over, "--format", "json")
    found = document(out, "check-v1")
    assert not {"PC2001", "PC2002", "PC2003"} & {each["code"] for each in found["findings"]}
    assert not found["removable_together"]
    assert found["opaque"][0]["asks"] == ["domain names"]


@universes
def test_check_finds_rules_that_are_useless_under_every_reading(
    policyc: Run, over: tuple[str, ...]
) -> None:
    _, out, _ = policyc("check", "-f", "db-twice", *over, "--format", "json")
    found = json.loads(out)
    useless = {each["place"]["path"]: each["code"] for each in found["findings"]}
    assert useless == {"spec.egress[1]": "PC2003", "spec.egress[2]": "PC2002"}
    assert [each["path"] for each in found["removable_together"]] == ["spec.egress[1]"]


def test_check_needs_a_rule_that_an_opaque_one_may_not_replace(
    policyc: Run, tmp_path: Path
) -> None:
    """At its widest the rule with domain names covers the block; that is no reason to remove it."""
    folder = tmp_path / "covered"
    folder.mkdir()
    ports = '    toPorts: [{ports: [{port: "443", protocol: TCP}]}]\n'
    (folder / "policy.yaml").write_text(SIDES["with-address"] + ports)
    _, out, _ = policyc("check", "-f", "covered", "--format", "json")
    assert not {"PC2001", "PC2002", "PC2003"} & {
        each["code"] for each in json.loads(out)["findings"]
    }


WEB = 'namespace == "shop" && pod.app == "web"'
INTENTS = {
    f"never tcp/443 from {WEB} to 203.0.113.0/24": ("undecided", "undecided"),
    f"never tcp/80 from {WEB} to 203.0.113.0/24": ("holds", "holds"),
    # some pod may have such an address: no rule allows what goes to a pod
    f"always tcp/443 from {WEB} to 203.0.113.0/24": ("broken", "undecided"),
    f'always tcp/443 from {WEB} to pod.app == "db"': ("broken", "broken"),
}
"""What becomes of an intent in every cluster, and in the one given."""


@universes
@pytest.mark.parametrize(("intent", "statuses"), INTENTS.items())
def test_intents(
    policyc: Run,
    over: tuple[str, ...],
    intent: str,
    statuses: tuple[str, str],
    tmp_path: Path,
) -> None:
    status = statuses[UNIVERSES.index(over)]
    (tmp_path / "intents.txt").write_text(f"{intent} egress\n")
    code, out, _ = policyc(
        "verify", "-f", "github", "--intents", "intents.txt", *over, "--format", "json"
    )
    found = document(out, "verify-v1")
    (answer,) = found["intents"]
    assert (answer["status"], code) == (status, {"holds": 0, "broken": 1, "undecided": 3}[status])
    if status == "undecided":
        assert RULE in answer["explanation"]
        assert [each["path"] for each in answer["responsible"]] == ["spec.egress[0]"]
    assert found["opaque"][0]["place"]["path"] == "spec.egress[0]"


def test_eval_is_unknown_if_the_verdict_depends_on_the_rule(policyc: Run) -> None:
    given = ("eval", "-f", "github", "--cluster", "cluster.yaml", "--format", "json")
    code, out, err = policyc(*given, "shop/web", "203.0.113.9", "tcp/443")
    found = document(out, "eval-answer-v1")
    assert (code, found["verdict"]) == (0, "unknown")
    assert found["depends_on"] == [f"{RULE} (github/policy.yaml:7) asks for domain names"]
    assert "PC0711" in err
    for service, other in (("tcp/80", "203.0.113.9"), ("tcp/443", "shop/db")):
        _, out, err = policyc(*given, "shop/web", other, service)
        assert document(out, "eval-answer-v1")["verdict"] == "deny"
        assert "PC0711" not in err


def test_explain_walks_both_readings(policyc: Run) -> None:
    given = ("explain", "-f", "github", "--cluster", "cluster.yaml")
    code, out, _ = policyc(*given, "shop/web", "203.0.113.9", "tcp/443", "--format", "json")
    found = document(out, "explain-v1")
    assert (code, found["verdict"]) == (0, "unknown")
    assert [walk["action"] for walk in found["egress"]] == ["deny", "allow"]
    assert any(RULE in what for what in found["unknown"])


@pytest.mark.parametrize("form", ["text", "json", "markdown", "csv"])
def test_list_says_that_less_may_be_allowed(policyc: Run, form: str) -> None:
    code, out, err = policyc("list", "-f", "github", "--cluster", "cluster.yaml", "--format", form)
    assert code == 3
    said = err if form == "csv" else out.replace("\\", "")
    assert "domain names" in said and "policy.yaml:7" in said


def test_convert_refuses(policyc: Run) -> None:
    code, out, err = policyc("convert", "-f", "with-db", "--to", "networkpolicy")
    assert (code, out) == (2, "")
    assert f"with-db/policy.yaml:7:5: error[PC1702]: {RULE} uses domain names" in err


def test_a_bundle_keeps_opaque_rules(policyc: Run) -> None:
    assert policyc("compile", "-f", "github", "-o", "bundle")[0] == 0
    assert policyc("diff", "bundle", "github")[0] == 0
    assert policyc("diff", "bundle", "evil")[0] == 3
