# SPDX-License-Identifier: Apache-2.0
"""The comments of the emitted C name rules and classes; a file name cannot end a comment."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from policyc.backends.ebpf_c.clang import compile_object
from policyc.compiler.driver.compile.compile import (
    Inputs,
    compile_inputs,
)
from policyc.compiler.driver.compile.emission import emit_all
from policyc.compiler.frontend import PathSource, ReadOptions
from policyc.ir.spans import Origin, Span
from tests.slices import one_in

ROOT = Path(__file__).parents[3]
CASE = ROOT / "tests" / "golden" / "emitted" / "selectors_and_ports"
NAMES = [
    "*/ #error out",
    "/* nested",
    "*\\\r/ #error out",
    "*??/\r/ #error out",
    "*\\\n/ #error out",
    "ends in \\",
    "\u202e override",
    "é \u2028 line",
    "surrogate \udcff",
    "tab\tand \x0b vertical",
]


@pytest.mark.parametrize("name", one_in(3, NAMES), ids=ascii)
def test_a_hostile_file_name_stays_in_its_comment(name: str, tmp_path: Path) -> None:
    inputs = Inputs((PathSource(str(CASE / "policies.yaml")),), (), ReadOptions())
    decision = compile_inputs(inputs, None, lambda stage: None).decided.decision
    place = (Origin(Span(name, 1, 1), "spec"),)
    rules = tuple(replace(e, origins=place) if e.origins else e for e in decision.rules)
    c = emit_all(replace(decision, rules=rules)).c
    shutil.copytree(ROOT / "runtime" / "datapath", tmp_path / "datapath")
    (tmp_path / "policy.bpf.c").write_text(c, encoding="utf-8")
    compile_object(tmp_path, "policy.bpf.c", "datapath", "policy.bpf.o")
    assert "#error" not in "\n".join(
        line for line in c.splitlines() if not line.lstrip().startswith(("*", "/*", " *"))
    )


def test_a_node_of_any_kind_is_named_without_a_condition(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: c, namespace: a}\n"
        "spec:\n  endpointSelector: {}\n  ingress: [{fromEntities: [host]}]\n"
        "  egress: [{toEntities: [remote-node]}]\n"
    )
    inputs = Inputs((PathSource(str(policy)),), (), ReadOptions())
    c = emit_all(compile_inputs(inputs, None, lambda stage: None).decided.decision).c
    assert ": the pod's own node\n" in c and ": a node\n" in c
