# SPDX-License-Identifier: Apache-2.0
"""`policyc check` finds what tests/golden/check says, at these lines, and nothing else."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from policyc.compiler.cli.main import run
from policyc.compiler.driver.check.codes import RULES

FOLDER = Path(__file__).parent / "check"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['case']}")
    for path in sorted(FOLDER.glob("*.yaml"))
    for case in yaml.load(path.read_text(), yaml.CSafeLoader)
]


def checked(
    case: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str], *options: str
) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer as JSON."""
    (tmp_path / "policies.yaml").write_text(case["policies"])
    arguments = ["check", "-f", str(tmp_path / "policies.yaml"), "--format", "json", *options]
    if "cluster" in case:
        (tmp_path / "cluster.yaml").write_text(case["cluster"])
        arguments += ["--cluster", str(tmp_path / "cluster.yaml")]
    code = run(arguments)
    shown: dict[str, Any] = json.loads(capfd.readouterr().out)
    schema = json.loads((SCHEMAS / "check-v1.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(shown)
    return code, shown


@pytest.mark.parametrize("case", CASES)
def test_check_reports_exactly_the_written_findings(
    case: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, shown = checked(case, tmp_path, capfd)
    found = [[each["code"], each["place"]["line"]] for each in shown["findings"]]
    assert found == case["finds"]
    severe = [each for each in shown["findings"] if each["severity"] != "note"]
    assert code == (1 if severe else 0)
    if "together" in case:
        assert [place["line"] for place in shown["removable_together"]] == case["together"]
    if "hint" in case:
        assert case["hint"] in shown["findings"][0]["help"]
    if "explains" in case:
        assert case["explains"] in shown["findings"][0]["explanation"]


def test_every_kind_of_finding_has_a_case() -> None:
    found = {code for case in CASES for code, _ in case.values[0]["finds"]}
    assert found | {"PC2010"} == {rule.code for rule in RULES}
