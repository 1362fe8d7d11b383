# SPDX-License-Identifier: Apache-2.0
"""`policyc diff` and `policyc equiv` as they are run: every format, exit code and kind of bad input."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
SARIF = ROOT / "tests" / "unit" / "backends" / "sarif-schema-2.1.0.json"
FORMATS = ("text", "json", "sarif", "markdown")
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from:
    - podSelector: {matchLabels: {app: web}}
    ports:
    - {port: PORTS}
"""
PODS = "\n---\n".join(
    f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}}}
spec: {{containers: [{{name: c}}]}}
status: {{podIP: 10.0.0.{number}}}
"""
    for number, name in enumerate(("db", "web"), 1)
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policyc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Runs a command in a folder with some policies and `pods.yaml`."""
    monkeypatch.chdir(tmp_path)
    for name, ports in {
        "old": "5432, endPort: 5440",
        "wide": "5432, endPort: 5441",
        "narrow": "5432, endPort: 5439",
        "moved": "6000",
        "same": "5432, endPort: 5440, protocol: TCP",
        "split": "5432, endPort: 5436}\n    - {port: 5437, endPort: 5440",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "db.yaml").write_text(POLICY.replace("PORTS", ports))
    (tmp_path / "pods.yaml").write_text(PODS)

    def go(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(list(arguments))
        said = capfd.readouterr()
        return code, said.out, said.err

    return go


def check(text: str, schema: Path) -> Any:
    found = json.loads(text)
    said = json.loads(schema.read_text())
    jsonschema.validators.validator_for(said)(said).validate(found)
    return found


@pytest.mark.parametrize("cluster", [(), ("--cluster", "pods.yaml")], ids=["symbolic", "cluster"])
@pytest.mark.parametrize(
    ("new", "outcome", "failing"),
    [
        ("same", "equal", ()),
        ("wide", "widened", ("any", "widened")),
        ("narrow", "narrowed", ("any", "narrowed")),
        ("moved", "both", ("any", "widened", "narrowed")),
    ],
)
def test_outcomes_and_exit_codes(
    policyc: Run, cluster: tuple[str, ...], new: str, outcome: str, failing: tuple[str, ...]
) -> None:
    for fail_on in ("any", "widened", "narrowed", "none"):
        options = (*cluster, "--fail-on", fail_on, "--format", "json")
        code, out, _ = policyc("diff", "old", new, *options)
        assert code == int(fail_on in failing)
        assert json.loads(out)["result"] == outcome


@pytest.mark.parametrize("cluster", [(), ("--cluster", "pods.yaml")], ids=["symbolic", "cluster"])
@pytest.mark.parametrize("style", FORMATS)
def test_every_format_of_diff(policyc: Run, cluster: tuple[str, ...], style: str) -> None:
    code, out, _ = policyc("diff", "old", "moved", *cluster, "--format", style)
    assert code == 1
    if style == "json":
        check(out, SCHEMAS / "diff-v1.schema.json")
    elif style == "sarif":
        found = check(out, SARIF)
        assert len(found["runs"][0]["results"]) >= 2
    else:
        assert "moved/db.yaml:" in out
        assert "5432" in out
        assert len(out) <= 60_000


def test_a_solver_that_gave_up_is_never_equal(policyc: Run) -> None:
    for new in ("moved", "wide"):
        code, out, _ = policyc(
            "diff", "old", new, "--timeout", "0.0001", "--fail-on", "none", "--format", "json"
        )
        assert (code, json.loads(out)["result"]) in (
            (3, "undecided"),
            (0, {"moved": "both", "wide": "widened"}[new]),
        )


@pytest.mark.parametrize("solver", ["z3", "bitwuzla", "both"])
def test_all_solvers_agree(policyc: Run, solver: str) -> None:
    assert policyc("diff", "old", "same", "--solver", solver)[0] == 0
    assert policyc("diff", "old", "narrow", "--solver", solver)[0] == 1
    pods = ("--cluster", "pods.yaml", "--audit")
    assert policyc("diff", "old", "same", *pods, "--solver", solver)[0] == 0
    assert policyc("diff", "old", "narrow", *pods, "--solver", solver)[0] == 1


def test_a_converted_set_is_equal(policyc: Run) -> None:
    for api in ("extended", "calico"):
        assert policyc("convert", "-f", "old", "--to", api, "-o", f"{api}.yaml")[0] == 0
        assert policyc("diff", "old", f"{api}.yaml")[0] == 0
        assert policyc("equiv", f"{api}.yaml", "old")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("diff", "old", "nowhere"),
        ("diff", "-", "-"),
        ("diff", "old", "git:nothing"),
        ("diff", "old", "old", "--universe", "cluster"),
        ("diff", "old", "old", "--cluster", "pods.yaml", "--cluster-old", "pods.yaml"),
        ("diff", "old", "old", "--cluster-old", "pods.yaml"),
        ("diff", "old", "old", "--timeout", "0"),
        ("diff", "old", "old", "--limit", "0"),
        ("diff", "old", "old", "--pod-cidr", "10.0.0.1/8"),
        ("diff", "old"),
        ("equiv", "old", "old", "--check", "nowhere"),
        ("equiv", "old", "old", "--check", "old"),
        ("equiv", "old", "old", "--check", "pods.yaml"),
        ("equiv", "nowhere", "nowhere"),
    ],
    ids=" ".join,
)
def test_bad_input_is_exit_code_2(policyc: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = policyc(*arguments)
    assert (code, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err


def test_an_invalid_policy_is_reported_with_its_position(policyc: Run) -> None:
    Path("wrong.yaml").write_text(POLICY.replace("podSelector: {m", "podSelectr: {m", 1))
    code, _, err = policyc("diff", "old", "wrong.yaml")
    assert code == 2
    assert "wrong.yaml:5:" in err


RUN_EACH = """\
import sys
from policyc.compiler.cli.main import run
for each in sys.argv[1:]:
    assert run([*each.split(), "--format", "json"]) == 1
"""


def test_diff_and_equiv_do_not_depend_on_the_hash_seed(policyc: Run) -> None:
    asked = [
        f"{command} old moved {universe}"
        for universe in ("", "--cluster pods.yaml")
        for command in ("diff", "equiv")
    ]

    def output(seed: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-c", RUN_EACH, *asked],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = output("1")
    assert found.count(b'"differences": [') == len(asked)
    assert found == output("77")


# Certificates.


def certificate(policyc: Run, *options: str, b: str = "same") -> dict[str, Any]:
    """Written to cert.json, and valid."""
    policyc("equiv", "old", b, *options, "--format", "json", "-o", "cert.json")
    found: dict[str, Any] = check(
        Path("cert.json").read_text(), SCHEMAS / "certificate-v2.schema.json"
    )
    return found


@pytest.mark.parametrize("cluster", [(), ("--cluster", "pods.yaml")], ids=["symbolic", "cluster"])
def test_the_other_solver_checks_a_certificate(policyc: Run, cluster: tuple[str, ...]) -> None:
    for mine, other in (("z3", "bitwuzla"), ("bitwuzla", "z3")):
        found = certificate(policyc, *cluster, "--solver", mine, b="split")
        assert [s["name"] for s in found["evidence"]["solvers"]] == [mine]
        code, out, _ = policyc("equiv", "old", "split", *cluster, "--check", "cert.json")
        assert code == 0
        assert f"solved by {other}" in out


@pytest.mark.parametrize("style", ["text", "json"])
def test_equiv_reports_different_policy_sets(policyc: Run, style: str) -> None:
    code, out, _ = policyc("equiv", "old", "wide", "--format", style)
    assert code == 1
    assert "different" in out


@pytest.mark.parametrize("command", ["equiv", "diff"])
def test_the_evidence_names_only_solvers_that_ran(policyc: Run, command: str) -> None:
    """Equal policies need no proof; other policies need a solver."""
    for other, is_asked in (("old", False), ("same", False), ("split", True)):
        code, out, _ = policyc(command, "old", other, "--format", "json")
        evidence = json.loads(out)["evidence"]
        assert code == 0
        assert bool(evidence["solvers"]) == is_asked
        assert ("no solver query" in evidence["method"]) != is_asked
        assert ("one query for each end" in evidence["method"]) == is_asked


def test_a_certificate_without_goals_is_checked(policyc: Run) -> None:
    found = certificate(policyc, b="old")
    assert found["obligations"] == []
    code, out, _ = policyc("equiv", "old", "old", "--check", "cert.json")
    assert code == 0
    assert "solved by" not in out


def test_equiv_check_detects_a_changed_certificate(policyc: Run) -> None:
    found = certificate(policyc, "--cluster", "pods.yaml")
    assert found["obligations"]
    lies: list[Callable[[dict[str, Any]], object]] = [
        lambda c: c["obligations"][0].update(digest="0" * 64),
        lambda c: c["obligations"].clear(),
        lambda c: c["inputs"][0].update(sha256="0" * 64),
        lambda c: c["inputs"].pop(),
        lambda c: c.update(result="different"),
        lambda c: c["settings"].update(universe="symbolic"),
        lambda c: c["settings"].update(ignore_effects=True),
        lambda c: c["settings"].update(pod_cidrs=["10.0.0.0/8"]),
    ]
    for lie in lies:
        told = json.loads(json.dumps(found))
        lie(told)
        Path("cert.json").write_text(json.dumps(told))
        code, out, _ = policyc(
            "equiv", "old", "same", "--cluster", "pods.yaml", "--check", "cert.json"
        )
        assert code == 1, told
        assert "differs from the certificate" in out


def as_before(found: dict[str, Any]) -> dict[str, Any]:
    """A certificate as it was written under schema v1: its settings are text."""
    settings = {
        name: " ".join(value) if isinstance(value, list) else str(value)
        for name, value in found["settings"].items()
    }
    return {**found, "schema": "policyc.dev/certificate/v1", "settings": settings}


@pytest.mark.parametrize("options", [(), ("--ignore-effects", "--pod-cidr", "10.0.0.0/8")])
def test_a_certificate_of_schema_v1_is_checked(policyc: Run, options: tuple[str, ...]) -> None:
    found = as_before(certificate(policyc, *options))
    Path("cert.json").write_text(json.dumps(found))
    again = ("equiv", "old", "same", *options[1:], "--check", "cert.json")
    assert policyc(*again)[0] == 0
    found["settings"]["pod_cidrs"] = "10.9.0.0/16"
    Path("cert.json").write_text(json.dumps(found))
    assert policyc(*again)[0] == 1


@pytest.mark.parametrize("value", ["False", 0, None])
def test_settings_of_another_type_are_no_certificate(policyc: Run, value: object) -> None:
    found = certificate(policyc)
    found["settings"]["audit"] = value
    Path("cert.json").write_text(json.dumps(found))
    assert policyc("equiv", "old", "same", "--check", "cert.json")[0] == 2


def test_a_certificate_does_not_hold_for_other_inputs_or_another_universe(policyc: Run) -> None:
    certificate(policyc)
    assert policyc("equiv", "old", "old", "--check", "cert.json")[0] == 1
    assert policyc("equiv", "old", "wide", "--check", "cert.json")[0] == 1
    with_pods = ("--cluster", "pods.yaml", "--check", "cert.json")
    assert policyc("equiv", "old", "same", *with_pods)[0] == 1


@pytest.mark.parametrize(
    "text", ["{", "[]", "null", '{"schema": "policyc.dev/other/v1"}', "\udcff", ""], ids=repr
)
def test_invalid_certificates_are_refused(policyc: Run, text: str) -> None:
    Path("cert.json").write_bytes(text.encode(errors="surrogateescape"))
    code, _, err = policyc("equiv", "old", "old", "--check", "cert.json")
    assert code == 2
    assert "cert.json" in err
    assert "PC0910" in err
    assert "certificate: it" in err, "it says what is wrong"


def test_pods_of_one_side_only_are_reported(policyc: Run) -> None:
    Path("fewer.yaml").write_text(PODS.split("\n---\n")[0])
    given = ("--cluster-old", "pods.yaml", "--cluster-new", "fewer.yaml")
    code, out, _ = policyc("diff", "old", "moved", *given)
    assert code == 0  # no pod of both sides may reach it, before or after
    assert "not compared: shop/web" in out


def test_a_pod_that_becomes_host_networked_is_reported(policyc: Run) -> None:
    Path("host.yaml").write_text(PODS.replace("{containers", "{hostNetwork: true, containers", 1))
    given = ("--cluster-old", "pods.yaml", "--cluster-new", "host.yaml")
    _, out, _ = policyc("diff", "old", "old", *given)
    assert "not compared: shop/db" in out


def test_the_changed_policies_come_before_the_regions(policyc: Run) -> None:
    Path("gone").mkdir()
    Path("gone/other.yaml").write_text(POLICY.replace("PORTS", "80").replace("name: db", "name: o"))
    code, text, _ = policyc("diff", "old", "gone")
    assert code == 1
    places = [text.index(each) for each in ("from old to gone", "policy", "shop: 1 policy", "1. ")]
    assert places == sorted(places)
    found = json.loads(policyc("diff", "old", "gone", "--format", "json")[1])["objects"]
    assert found["summary"] == [found["summary"][0]] and found["summary"][0].startswith("shop: ")
    markdown = policyc("diff", "old", "gone", "--format", "markdown")[1]
    assert markdown.index(found["summary"][0].partition(":")[0] + ": ") < markdown.index("| # |")
    assert "policies: " in markdown
