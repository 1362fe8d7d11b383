# SPDX-License-Identifier: Apache-2.0
"""The code lemma holds of compiled policy programs, and of none in which one thing is wrong."""

import pytest

from policyc.compiler.driver.compile import objects
from policyc.compiler.driver.compile.target import Backend
from tests.unit.verifier.translation.generations import (
    Made,
    made,
)
from tests.unit.verifier.translation.wrong_programs import (
    FIRST_PACKETS,
    IN_HEADERS,
    RESETS,
    WRONG,
    lemma_of,
    refutation,
)

pytestmark = pytest.mark.thorough

PROVED = ("no-policies", "cidr6", "selectors-10")


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        # C of addresses is proved by tests/end_to_end/test_prove.py, too, in every run.
        *(pytest.param(name, Backend.C, marks=pytest.mark.slow) for name in ("cidr4", *PROVED)),
        pytest.param("cidr4", Backend.LLVM, marks=pytest.mark.slow),
    ],
)
def test_the_bytecode_is_the_plan(name: str, backend: Backend) -> None:
    case = made(name, backend)
    lemma = lemma_of(case, case.object)
    assert [(failed.claim, failed.case.title) for failed in lemma.failed()] == []
    assert len(list(lemma.claims())) > 50


QUICK = "the packet is marked"
"""The one of `make test`, which refutes wrong C in tests/kernel/bytecode/test_faults.py, too."""


@pytest.mark.slow
@pytest.mark.parametrize("claim", RESETS)
def test_a_program_that_resets_something_else_is_refuted(
    claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, wrong = RESETS[claim]
    case, code = in_header(f"resets: {claim}", "policy_run.h", right, wrong, monkeypatch)
    assert refutation(case, code) == claim


@pytest.mark.slow
@pytest.mark.parametrize("claim", FIRST_PACKETS)
def test_a_program_that_forwards_something_else_is_refuted(
    claim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, code = in_header(f"first: {claim}", *FIRST_PACKETS[claim], monkeypatch)
    assert refutation(case, code) == claim


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_program_with_one_wrong_thing_is_refuted(fault: str) -> None:
    right, wrong = WRONG[fault]
    case = made("cidr4")
    assert case.emitted.c.count(right) == 1, f"the C does not say `{right}` once"
    code = objects.policy_object(case.emitted.c.replace(right, wrong), None)
    assert refutation(case, code)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault == QUICK else pytest.mark.slow) for fault in IN_HEADERS],
)
def test_a_datapath_with_one_wrong_thing_is_refuted(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, code = in_header(fault, *IN_HEADERS[fault], monkeypatch)
    assert refutation(case, code)


def test_each_wrong_thing_changes_c_that_is_there() -> None:
    """Only slow tests make these programs, and they would be the last to miss it."""
    c = made("cidr4").emitted.c
    counts = {fault: c.count(right) for fault, (right, _) in WRONG.items()}
    assert counts == dict.fromkeys(WRONG, 1)


def in_header(
    fault: str, name: str, right: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Made, bytes]:
    """The program with another text in the place of one that a header has once.

    `QUICK` shows without a policy, which takes less time.
    """
    headers = objects.datapath_files()
    text = headers[name].decode()
    assert text.count(right) == 1, f"{name} does not say `{right}` once"
    changed = {**headers, name: text.replace(right, wrong).encode()}
    case = made("no-policies" if fault == QUICK else "cidr4")
    with monkeypatch.context() as patched:
        patched.setattr(objects, "datapath_files", lambda: changed)
        text = f"/* {fault} */\n{case.emitted.c}"  # or what was compiled before would do
        return case, objects._compiled("policy.bpf.c", text)[0]


@pytest.mark.slow
def test_a_table_that_is_too_small_is_refuted() -> None:
    case = made("cidr4")
    right = "PC_TABLE(pc_class, 65536, struct pc_class);"
    code = objects.policy_object(case.emitted.c.replace(right, right.replace("65536", "2")), None)
    assert refutation(case, code) == "pc_class is not the map of the plan"
