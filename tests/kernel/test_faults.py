# SPDX-License-Identifier: Apache-2.0
"""Every fault that a wrong compiler could have made is refuted, and the kernel runs into it.

`pytest -m slow tests/kernel/test_faults.py` prints the list and the score.
"""

from functools import cache
from pathlib import Path

import pytest

from policyc.compiler.driver.target import HOOKS, Backend, Target
from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.object import BpfObject, read_object
from policyc.verifier.translation.code_lemma import CodeLemma
from policyc.verifier.translation.planned_maps import map_claims
from policyc.verifier.translation.policy_runs import run_policy
from policyc.verifier.translation.shared_layouts import layout_faults
from tests.kernel.faults.confirming import Generation, Seen, confirmed
from tests.kernel.faults.witness import Witness, of_code, of_seeds
from tests.kernel.faults.wrong import (
    ALL,
    REFUTED_ALONE,
    SEED_FAULTS,
    CodeFault,
    InC,
    InHeader,
    InSeed,
    right_of,
)

pytestmark = pytest.mark.kernel
QUICK = (
    "an address too far",
    "an address is compared with its sign",
    "only one end is asked",
    "seeds: a denial becomes an allowance",
    "seeds: a port too high",
    "seeds: an address too high",
    "seeds: a bucket has another word",
)
"""Those of `make test`: of each place where a fault may be, one."""


@cache
def hooks() -> BpfObject:
    """Those of the release."""
    return read_object(Target(Backend.C).node_objects(None)[HOOKS])


def refuted_program(fault: CodeFault, folder: Path) -> tuple[str, Seen]:
    """The claim that fails, or why nothing can be said of the program; and how the kernel saw it."""
    case, code = right_of(fault), fault.code()
    seeds = tuple(seed for seed in case.emitted.seeds if seed.data)
    generations = Generation(case.object, seeds), Generation(code, seeds)
    try:
        runs = run_policy(read_object(code))
    except UnmodelledError as unmodelled:
        return str(unmodelled), confirmed(*generations, (), folder)
    apart = next(layout_faults(read_object(code), hooks()), None)
    if apart is not None:
        return apart, confirmed(*generations, (), folder)
    missing = next(map_claims(runs.program, case.plan), None)
    if missing is not None:
        return missing.what, confirmed(*generations, (), folder)
    lemma = CodeLemma(runs, case.plan, case.lemma().codes)
    failed = next(lemma.failed(), None)
    if failed is None:
        return "", Seen("", "")
    return failed.claim.what, confirmed(*generations, [of_code(lemma, failed)], folder)


def refuted_seeds(fault: InSeed, folder: Path) -> tuple[str, Seen]:
    """The fault that the data lemma names, and how the kernel saw it."""
    case = right_of(fault)
    broken = next(case.lemma(fault.seeds).faults(), None)
    if broken is None:
        return "", Seen("", "")
    right = Generation(case.object, tuple(seed for seed in case.emitted.seeds if seed.data))
    wrong = Generation(case.object, tuple(seed for seed in fault.seeds if seed.data))
    witnesses: list[Witness] = []
    if broken.direction is not None:
        witnesses = list(of_seeds(read_object(case.object), case, broken))
    return broken.what, confirmed(right, wrong, witnesses, folder)


def refuted(name: str, folder: Path) -> tuple[str, Seen]:
    """What refutes the fault, and how the kernel saw it."""
    fault = ALL[name]
    folder.mkdir()
    return (
        refuted_seeds(fault, folder)
        if isinstance(fault, InSeed)
        else refuted_program(fault, folder)
    )


def test_what_the_faults_change_is_there() -> None:
    """Most faults are put in by slow tests alone, which would be the last to miss it."""
    gone = [
        name
        for name, fault in ALL.items()
        if isinstance(fault, InC | InHeader) and not fault.is_there()
    ]
    assert gone == []


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_refuted_and_seen(name: str, tmp_path: Path) -> None:
    claim, seen = refuted(name, tmp_path / "fault")
    assert claim
    assert seen.how == "witness", seen


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, missed, n_seen = [], [], 0
    for number, (name, fault) in enumerate(ALL.items()):
        claim, seen = refuted(name, tmp_path / str(number))
        lines.append(
            f"{fault.where:7} {name:46} {seen.how or 'NOT SEEN':8} {claim or 'NOT REFUTED'}; {seen.what}"
        )
        if not claim or (not seen.how and name not in REFUTED_ALONE):
            missed.append(name)
        n_seen += bool(claim and seen.how)
    score = (
        f"{len(ALL) - len(missed)} of {len(ALL)} faults are refuted, {n_seen} seen in the kernel"
    )
    with capsys.disabled():
        print("", *lines, score, sep="\n")
    assert not missed
    assert n_seen >= 40 and len(SEED_FAULTS) >= 10
