# SPDX-License-Identifier: Apache-2.0
"""The compiler emits the golden files for small policies, and the golden programs compile.

`make golden` rewrites the files; reviewers read the difference.
"""

import shutil
from pathlib import Path

import pytest

from policyc.backends.ebpf_c.clang import compile_object
from policyc.backends.report.dump import (
    dump_atoms,
    dump_decision_ir,
    dump_plan,
    dump_policy_ir,
    dump_seeds,
)
from policyc.compiler.driver.compile.compile import (
    Compiled,
    Inputs,
    compile_inputs,
)
from policyc.compiler.frontend.read import ReadOptions
from policyc.compiler.frontend.yaml.sources import PathSource
from tests.slices import one_in

HERE = Path(__file__).parent / "emitted"
ROOT = Path(__file__).parents[2]
CASES = sorted(path.name for path in HERE.iterdir() if path.is_dir())
FILES = ("policy.bpf.c", "stages.txt")


def compiled(case: str, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    monkeypatch.chdir(HERE / case)  # so that places in comments are the same everywhere
    cluster = (PathSource("cluster.yaml"),) if Path("cluster.yaml").exists() else ()
    inputs = Inputs((PathSource("policies.yaml"),), cluster, ReadOptions())
    return compile_inputs(inputs, None, lambda stage: None)


def stages(done: Compiled) -> str:
    """Every other stage as text."""
    parts = {
        "policy-ir": dump_policy_ir(done.decided.policies),
        "atoms": dump_atoms(done.decided.atoms),
        "decision-ir": dump_decision_ir(done.decided.decision),
        "plan": dump_plan(done.emitted.plan),
        "seeds": dump_seeds(done.emitted.seeds),
    }
    return "".join(f"== {name}\n{text}\n" for name, text in parts.items())


@pytest.mark.parametrize("case", CASES)
def test_the_stages_are_as_written_down(
    case: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    done = compiled(case, monkeypatch)
    for name, text in zip(FILES, (done.emitted.c, stages(done)), strict=True):
        golden = HERE / case / name
        if request.config.getoption("--update-golden"):
            golden.write_text(text)
        assert golden.read_text() == text, f"{golden}: `make golden` rewrites it"


@pytest.mark.parametrize("case", one_in(3, CASES))
def test_the_golden_program_compiles(case: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "runtime" / "datapath", tmp_path / "datapath")
    shutil.copy(HERE / case / "policy.bpf.c", tmp_path)
    compile_object(tmp_path, "policy.bpf.c", "datapath", "policy.bpf.o")
    assert (tmp_path / "policy.bpf.o").stat().st_size > 0
