# SPDX-License-Identifier: Apache-2.0
"""`policyc check`: exit codes, comments, configuration, sources, formats, and wrong input."""

import io
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run
from policyc.compiler.driver.check.codes import RULES
from policyc.verifier.redundancy import symbolic as symbolic_redundancy
from policyc.verifier.smt.solvers import (
    Answer,
    Decision,
    SolverAnswer,
)
from tests.dask_cluster import dask_cluster

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples" / "online-shop"
POLICY = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy%(kind)s
metadata:%(metadata)s
  name: db
  namespace: shop
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress:%(ingress)s
  - from: [{podSelector: {matchLabels: {app: web}}}]%(rule)s
  - from: [{podSelector: {}}]
"""
PORTS = (
    "{port: 80, endPort: 84}, {port: 443}",
    "{port: 85, endPort: 90}, {port: 8443}",
    "{port: 80, endPort: 90}",
)
COVERED_TOGETHER = POLICY.partition("  - from:")[0] + "".join(
    f"  - from: [{{podSelector: {{}}}}]\n    ports: [{ports}]\n" for ports in PORTS
)
"""The last rule is covered by two rules together: only a solver can tell."""
CLEAN = POLICY.partition("  - from: [{podSelector: {}}]")[0]
PLACES = ("kind", "metadata", "ingress", "rule")


def text(template: str = POLICY, **comments: str) -> str:
    return template % {place: comments.get(place, "") for place in PLACES}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: no configuration from elsewhere."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given(here: Path, content: str) -> list[str]:
    (here / "p.yaml").write_text(content)
    return ["check", "-f", "p.yaml"]


def answer(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = run([*arguments, "--format", "json"])
    shown = json.loads(capfd.readouterr().out)
    schema = json.loads((ROOT / "docs" / "schemas" / "check-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    return code, shown


def test_exit_codes_follow_the_bar(here: Path) -> None:
    found = given(here, text())
    assert run(found) == 1
    assert run([*found, "--fail-on", "note"]) == 1
    assert run([*found, "--fail-on", "error"]) == 0
    assert run([*found, "--fail-on", "none"]) == 0
    assert run(given(here, text(CLEAN))) == 0


def test_a_rule_that_another_one_covers_needs_no_solver(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(symbolic_redundancy, "decide", lambda *_: pytest.fail("a solver was asked"))
    code, shown = answer(capfd, *given(here, text()))
    assert (code, [each["code"] for each in shown["findings"]]) == (1, ["PC2003"])


def test_a_solver_that_gives_up_is_undecided_and_no_finding(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    unknown = Decision((SolverAnswer("z3", "0", Answer.UNKNOWN, "tired"),))
    monkeypatch.setattr(symbolic_redundancy, "decide", lambda *_: unknown)
    code, shown = answer(capfd, *given(here, text(COVERED_TOGETHER)))
    assert code == 3
    assert shown["findings"] == []
    assert "is shop/db spec.ingress[2] needed? " in shown["undecided"][0]
    assert shown["removable_together"] == []


@pytest.mark.parametrize(
    "comments",
    [
        {"rule": "  # policyc:ignore=PC2003 kept for the audit"},
        {"ingress": "\n  # policyc:ignore=PC2003 kept for the audit"},
        {"ingress": "\n  # policyc:ignore=PC2003 kept for the audit\n\n  # and this"},
        {"metadata": "  # policyc:ignore=PC2003 kept for the audit"},
        {"kind": " # policyc:ignore=PC2002,PC2003 kept for the audit"},
    ],
)
def test_a_comment_suppresses_with_its_reason(
    comments: dict[str, str], here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, shown = answer(capfd, *given(here, text(**comments)))
    assert [each["reason"] for each in shown["suppressed"]] == ["kept for the audit"]
    left = [each["code"] for each in shown["findings"]]
    assert left == (["PC2010"] if "PC2002" in str(comments) else [])


def test_a_comment_is_about_its_object_alone(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = text().replace("name: db", "name: other").replace("namespace: shop", "namespace: b")
    quiet = text(metadata=" # policyc:ignore=PC2003 kept")
    for order in ((quiet, other), (other, quiet)):
        _, shown = answer(capfd, *given(here, "---\n".join(order)))
        assert len(shown["suppressed"]) == 1
        assert [each["place"]["words"][:5] for each in shown["findings"]] == ["b/oth"]


def test_a_comment_in_a_list_is_about_its_item(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def item(name: str, comment: str) -> str:
        lines = text(kind=comment).replace("name: db", f"name: {name}").splitlines()
        return "\n".join(("- " if at == 0 else "  ") + line for at, line in enumerate(lines))

    items = [item("a", ""), item("b", " # policyc:ignore=PC2003 kept"), item("c", "")]
    items = [each.replace("namespace: shop", f"namespace: n{at}") for at, each in enumerate(items)]
    content = "apiVersion: v1\nkind: List\nitems:\n" + "\n".join(items) + "\n"
    _, shown = answer(capfd, *given(here, content))
    assert [each["finding"]["place"]["words"][:4] for each in shown["suppressed"]] == ["n1/b"]
    assert [each["place"]["words"][:4] for each in shown["findings"]] == ["n0/a", "n2/c"]


def test_a_comment_that_suppresses_nothing_is_a_finding(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = text(CLEAN, rule=" # policyc:ignore=PC2003 was needed once")
    code, shown = answer(capfd, *given(here, content))
    assert code == 1
    assert [(f["code"], f["place"]["line"]) for f in shown["findings"]] == [("PC2010", 10)]


@pytest.mark.parametrize(
    ("comment", "code", "hint"),
    [
        (" # policyc:ignore=PC2003", "PC2091", "why it is wanted"),
        (" # policyc:ignore=PC20O8 kept", "PC2090", "did you mean `PC2008`?"),
        (" # policyc:ignore PC2003 kept", "PC2092", "why it is wanted"),
        (" # policyc:ignore= kept", "PC2092", ""),
    ],
)
def test_wrong_comments_are_errors(
    comment: str, code: str, hint: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(given(here, text(rule=comment))) == 2
    shown = capfd.readouterr().err
    assert f"p.yaml:10:54: error[{code}]" in shown
    assert hint in shown


CONFIG = "check:\n  severities:\n    PC2003: %s\n"


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [("error", "error", 1), ("note", "warning", 0), ("note", "note", 1), ("off", "note", 0)],
)
def test_the_configuration_sets_severities(
    severity: str, fail_on: str, code: int, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / ".policyc.yaml").write_text(CONFIG % severity)
    (here / "other.yaml").write_text(CONFIG % "warning")
    arguments = [*given(here, text()), "--fail-on", fail_on]
    found, shown = answer(capfd, *arguments)
    assert found == code
    assert [each["severity"] for each in shown["findings"]] == [severity] * (severity != "off")
    _, shown = answer(capfd, *arguments, "--config", "other.yaml")
    assert [each["severity"] for each in shown["findings"]] == ["warning"]


@pytest.mark.parametrize(
    ("content", "place", "says"),
    [
        ("check: {severities: {PC2003: loud}}", "1:30", "error, warning, note or off"),
        ("check: {severities: {PC2999: off}}", "1:22", "PC2999 is not a finding"),
        ("check: {severity: {}}", "1:9", "did you mean `severities`?"),
        ("chek: {}", "1:1", "did you mean `check`?"),
        ("check: [a]", "1:8", "expected a mapping"),
        ("check: {severities: [a]}", "1:21", "expected codes"),
        ("check: {}\n---\ncheck: {}", "3:1", "more than one document"),
        ("check: {", "", "PC0105"),
    ],
)
def test_a_wrong_configuration_is_an_error(
    content: str, place: str, says: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / ".policyc.yaml").write_text(content)
    assert run(given(here, text())) == 2
    shown = capfd.readouterr().err
    assert f".policyc.yaml:{place}" in shown
    assert says in shown


@pytest.mark.parametrize("form", ["text", "json", "sarif", "markdown"])
def test_every_report_names_the_configuration(
    form: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / ".policyc.yaml").write_text(CONFIG % "off")
    assert run([*given(here, text()), "--format", form]) == 0
    shown = capfd.readouterr().out.replace("\\", "")
    assert ".policyc.yaml" in shown
    if form == "json":
        assert json.loads(shown)["config"] == {
            "file": ".policyc.yaml",
            "severities": {"PC2003": "off"},
            "hidden": {"PC2003": 1},
        }
    else:
        assert "sets PC2003 to off; it hides 1 finding of PC2003" in shown


def test_without_a_configuration_none_is_named(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, shown = answer(capfd, *given(here, text()))
    assert "config" not in shown


def test_the_search_for_a_configuration_ends_at_the_repository(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    inner = here / "repository" / "team"
    inner.mkdir(parents=True)
    given(here, text())
    arguments = ["check", "-f", str(here / "p.yaml")]
    (here / ".policyc.yaml").write_text(CONFIG % "off")
    monkeypatch.chdir(inner)
    _, shown = answer(capfd, *arguments)
    assert "config" not in shown, "outside of a repository only the working directory counts"
    (here / "repository" / ".git").mkdir()
    _, shown = answer(capfd, *arguments)
    assert "config" not in shown, "what lies above the repository does not count"
    (here / "repository" / ".policyc.yaml").write_text(CONFIG % "note")
    _, shown = answer(capfd, *arguments)
    assert shown["config"]["file"] == "../.policyc.yaml"


def test_a_configuration_of_a_commit(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The change under review turns a finding off; the base does not."""
    config = here / ".policyc.yaml"
    config.write_text(CONFIG % "error")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for step in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "base")):
        subprocess.run([*git, *step], cwd=here, check=True)
    config.write_text(CONFIG % "off")
    found, shown = answer(capfd, *given(here, text()), "--config", "git:HEAD:.policyc.yaml")
    assert found == 1
    assert [each["severity"] for each in shown["findings"]] == ["error"]
    assert shown["config"]["file"] == "git:HEAD:.policyc.yaml"
    capfd.readouterr()
    assert run([*given(here, text()), "--config", "git:HEAD:none.yaml"]) == 2
    assert "`--config /dev/null` uses none" in capfd.readouterr().err
    _, shown = answer(capfd, *given(here, text()), "--config", "/dev/null")
    assert shown["config"]["severities"] == {}


def test_a_configuration_that_is_named_must_be_there(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(here, text()), "--config", "none.yaml"]) == 2
    assert "PC0101" in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        {"chek": {}},
        {"check": {"severities": {"PC2999": "off"}}},
        {"check": {"severities": {"PC2003": "loud"}}},
    ],
)
def test_the_schema_of_the_configuration_takes_what_the_reader_takes(wrong: Any) -> None:
    schema = json.loads((ROOT / "docs" / "schemas" / "config.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate({"check": {"severities": {rule.code: "off" for rule in RULES}}})
    assert not validator.is_valid(wrong)


def test_standard_input_git_and_bundles(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = given(here, text(rule=" # policyc:ignore=PC2003 kept"))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text().encode())))
    assert run(["check", "-f", "-"]) == 1
    assert "<stdin>:10:5: warning[PC2003]" in capfd.readouterr().out
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for command in (("init", "-q"), ("add", "p.yaml"), (*who, "commit", "-qm", "a")):
        subprocess.run(["git", *command], check=True, cwd=here)
    code, shown = answer(capfd, "check", "-f", "git:HEAD:p.yaml")
    assert (code, len(shown["suppressed"])) == (0, 1)
    assert run(["compile", "-f", "p.yaml", "-o", "bundle"]) == 0
    capfd.readouterr()
    assert found
    code, shown = answer(capfd, "check", "-f", "bundle")
    assert (code, [each["code"] for each in shown["findings"]]) == (1, ["PC2003"])
    assert "no comments" in shown["notes"][0]


@pytest.mark.parametrize(
    "arguments",
    [
        ["-f", "none.yaml"],
        ["-f", "-", "-f", "-"],
        ["-f", "p.yaml", "--universe", "cluster"],
        ["-f", "p.yaml", "--executor", "here"],
        ["-f", "p.yaml", "--pod-cidr", "10.0.0.1/8"],
        ["-f", "p.yaml", "--fail-on", "all"],
        [],
    ],
)
def test_wrong_usage(arguments: list[str], here: Path) -> None:
    given(here, text())
    assert run(["check", *arguments]) == 2


@pytest.mark.parametrize("form", ["text", "json", "sarif", "markdown"])
def test_every_format_names_the_rule_and_its_place(
    form: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run([*given(here, text()), "--format", form]) == 1
    shown = capfd.readouterr().out
    assert "shop/db" in shown
    assert "changes nothing" in shown


def test_sarif_has_help_for_every_rule_and_marks_what_is_suppressed(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run([*given(here, text(rule=" # policyc:ignore=PC2003 kept")), "--format", "sarif"])
    (log,) = json.loads(capfd.readouterr().out)["runs"]
    assert all(rule["help"]["text"] for rule in log["tool"]["driver"]["rules"])
    (result,) = log["results"]
    assert result["suppressions"][0]["justification"] == "kept"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 10


def test_the_example_is_clean_in_both_universes(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for options in ([], ["--cluster", str(SHOP / "cluster")]):
        code, shown = answer(capfd, "check", "-f", str(SHOP / "policies"), *options)
        assert (code, shown["findings"]) == (0, [])
        assert [each["finding"]["code"] for each in shown["suppressed"]] == ["PC0503"]


def many() -> str:
    documents = []
    for number in range(40):
        found = text().replace("namespace: shop", f"namespace: n{number}")
        documents.append(found if number % 2 else text(CLEAN).replace("shop", f"n{number}"))
    return "---\n".join(documents)


@pytest.mark.parametrize("where", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_the_answer_is_the_same_in_processes_and_on_a_cluster_of_dask(
    here: Path, capfd: pytest.CaptureFixture[str], where: str
) -> None:
    found = given(here, many())
    alone = answer(capfd, *found)
    assert len(alone[1]["findings"]) == 20
    if where == "processes":
        assert answer(capfd, *found, "--jobs", "2") == alone
    else:
        with dask_cluster(1) as executor:
            assert answer(capfd, *found, "--executor", executor) == alone


def test_pods_that_a_finding_does_not_name_are_counted(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The policy selects five pods, all in the network of their host."""
    pod = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: db%d, namespace: shop}\n"
        "spec: {hostNetwork: true, containers: [{name: c}]}\nstatus: {podIP: 192.0.2.%d}\n"
    )
    (here / "pods.yaml").write_text("---\n".join(pod % (n, n) for n in range(1, 6)))
    _, found = answer(capfd, *given(here, text(CLEAN)), "--cluster", "pods.yaml")
    (said,) = (f["explanation"] for f in found["findings"] if "host's network" in f["explanation"])
    assert "(shop/db1, shop/db2, shop/db3 and 2 more)" in said
