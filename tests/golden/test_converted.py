# SPDX-License-Identifier: Apache-2.0
"""What `policyc convert` writes for small policies, or says it cannot, is what the golden files hold.

A case is a sentence, the target, what is `given`, and either what it `becomes` (as text: this is what
people read) or the rules that are `refused`. `make golden` rewrites the last two.
"""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from policyc.compiler.driver.compare.convert import (
    convert_inputs,
    to_yaml,
)
from policyc.compiler.driver.compile.compile import Inputs
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.ir.errors import InputError

HERE = Path(__file__).parent / "convert"
CASES = sorted(path.stem for path in HERE.glob("*.yaml"))
HEAD = "# SPDX-License-Identifier: Apache-2.0\n"
REFUSED = "PC1701"


@dataclass(frozen=True)
class Outcome:
    """YAML text, or the findings that refuse it."""

    becomes: str = ""
    refused: tuple[str, ...] = ()

    def to_fields(self) -> dict[str, object]:
        """As a golden file has it."""
        return {"refused": list(self.refused)} if self.refused else {"becomes": self.becomes}


def load(case: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / f"{case}.yaml").read_text())
    return found


def converted(case: dict[str, Any]) -> Outcome:
    inputs = Inputs((StreamSource(BytesIO(case["given"].encode())),), (), ReadOptions())
    ignores = case.get("ignore-effects", False)
    try:
        return Outcome(convert_inputs(inputs, case["to"], ignores, lambda stage: None).text)
    except InputError as failure:
        assert {finding.code for finding in failure.findings} == {REFUSED}
        return Outcome(
            refused=tuple(
                f"{f.span.line}:{f.span.column} {f.path}: {f.message}" for f in failure.findings
            )
        )


@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_as_written_down(name: str, request: pytest.FixtureRequest) -> None:
    case = load(name)
    given = converted(case)
    if request.config.getoption("--update-golden"):
        kept = {key: case[key] for key in case if key not in ("becomes", "refused")}
        (HERE / f"{name}.yaml").write_text(HEAD + to_yaml([kept | given.to_fields()]))
    expected = Outcome(case.get("becomes", ""), tuple(case.get("refused", ())))
    assert given == expected or request.config.getoption("--update-golden"), case["case"]


def test_every_target_has_cases_of_both_kinds() -> None:
    cases = [load(name) for name in CASES]
    for target in ("calico", "clusternetworkpolicy", "networkpolicy"):
        kinds = {"refused" in case for case in cases if case["to"] == target}
        assert kinds == {True, False}, target


def test_sentences_are_unique() -> None:
    titles = [load(name)["case"] for name in CASES]
    assert len(titles) == len(set(titles))
