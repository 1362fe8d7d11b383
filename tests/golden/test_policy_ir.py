# SPDX-License-Identifier: Apache-2.0
"""What the objects of every API, alone and together, become in the Policy IR is what is written down.

`make golden` rewrites the dumps; the difference is then read by whoever reviews the change.
"""

from pathlib import Path

import pytest

from policyc.backends.report.dump import dump_policy_ir
from policyc.compiler.driver.compile.compile import (
    Inputs,
    read_inputs,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import PathSource

HERE = Path(__file__).parent / "policy_ir"
CASES = sorted(path.name for path in HERE.iterdir() if path.is_dir())
PROFILES = {
    "calico": "calico",
    "mixed_calico": "calico",
    "cilium": "cilium",
    "mixed_cilium": "cilium",
}


@pytest.mark.parametrize("case", CASES)
def test_the_policy_ir_is_as_written_down(
    case: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(HERE / case)
    cluster = (PathSource("cluster.yaml"),) if Path("cluster.yaml").exists() else ()
    read = read_inputs(Inputs((PathSource("policies.yaml"),), cluster, ReadOptions()))
    assert read.policies.profile.value == PROFILES.get(case, "kubernetes")
    text = dump_policy_ir(read.policies.policies) + "\n"
    for staged in read.policies.staged:
        text += f"staged: {staged.policy.title}\n"
    golden = HERE / case / "policy-ir.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert golden.read_text() == text, f"{golden}: `make golden` rewrites it"
