# SPDX-License-Identifier: Apache-2.0
"""The proof refutes every fault of a wrong compiler, and the kernel shows its effect.

`pytest -m slow tests/kernel/bytecode/test_faults.py` prints the list and the score.
"""

from pathlib import Path

import pytest

from tests.kernel.faults.confirming import Generation, Seen, confirmed
from tests.kernel.faults.refuting import (
    Answer,
    Proved,
    Refuted,
    Unmodelled,
    ask_program,
    ask_seeds,
)
from tests.kernel.faults.wrong import (
    ALL,
    REFUTED_ALONE,
    SEED_FAULTS,
    SOURCES,
    UNMODELLED,
    InC,
    InHeader,
    InSeed,
    Source,
    source_of,
)
from tests.slices import one_in

pytestmark = pytest.mark.kernel
QUICK = (
    "seeds: a denial becomes an allowance",
    "seeds: a port too high",
    "seeds: an address too high",
    "seeds: a bucket has another word",
    "a prefix is a bit longer",
)
"""Of each place where a fault may be, one; the first and the last are in `make test`."""
NOT_SEEN = Seen("", "")


def answer_to(name: str) -> Answer:
    """What the proof says of the wrong program or the wrong seeds."""
    fault = ALL[name]
    case = source_of(fault).made()
    if isinstance(fault, InSeed):
        return ask_seeds(case, fault.seeds)
    return ask_program(case, fault.code())


def seen_in_the_kernel(name: str, refuted: Refuted, folder: Path) -> Seen:
    """How the kernel's verdicts on the right program and on the wrong one differ."""
    fault, right = ALL[name], source_of(ALL[name]).made()
    folder.mkdir()
    seeds = tuple(seed for seed in right.emitted.seeds if seed.data)
    if isinstance(fault, InSeed):
        wrong = Generation(right.object, tuple(seed for seed in fault.seeds if seed.data))
    else:
        wrong = Generation(fault.code(), seeds)
    return confirmed(Generation(right.object, seeds), wrong, refuted.witnesses, folder)


def test_every_fault_finds_the_code_that_it_changes() -> None:
    """Only slow tests apply most faults, and they would notice a missing place last."""
    gone = [
        name
        for name, fault in ALL.items()
        if isinstance(fault, InC | InHeader) and not fault.is_there()
    ]
    assert gone == []


@pytest.mark.parametrize("name", one_in(8, QUICK))
def test_a_fault_is_refuted_by_a_lemma_and_shown_by_the_kernel(name: str, tmp_path: Path) -> None:
    answer = answer_to(name)
    assert isinstance(answer, Refuted), answer
    seen = seen_in_the_kernel(name, answer, tmp_path / "fault")
    assert seen.how == "witness", seen


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_unchanged_programs_are_proved(source: Source) -> None:
    """The control: lemmas that refute every program would find every fault."""
    case = source.made()
    assert ask_program(case, case.object) == Proved()
    assert ask_seeds(case, case.emitted.seeds) == Proved()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_lemmas_refute_every_fault_that_they_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lemma that fails finds a fault. An instruction without a model finds none."""
    lines, n_seen = [], 0
    found: set[str] = set()
    unseen: set[str] = set()
    unmodelled: dict[str, str] = {}
    for number, (name, fault) in enumerate(ALL.items()):
        answer, seen = answer_to(name), NOT_SEEN
        match answer:
            case Refuted(lemma, claim):
                found.add(name)
                seen = seen_in_the_kernel(name, answer, tmp_path / str(number))
                said = f"{lemma}: {claim}"
            case Unmodelled(instruction):
                unmodelled[name] = instruction
                said = f"NOT MODELLED: {instruction}"
            case Proved():
                said = "NOT REFUTED"
        if name in found and not seen.how:
            unseen.add(name)
        n_seen += seen.how in ("witness", "chance")
        lines.append(f"{fault.where:7} {name:50} {seen.how or 'NOT SEEN':8} {said}; {seen.what}")
    score = (
        f"{len(found)} of {len(ALL)} faults are refuted by a lemma, "
        f"{n_seen} shown in the kernel by a flow"
    )
    with capsys.disabled():
        print("", *lines, score, sep="\n")
    assert unmodelled == UNMODELLED
    assert ALL.keys() - found == UNMODELLED.keys()
    assert unseen <= REFUTED_ALONE.keys()
    assert n_seen >= 40 and len(SEED_FAULTS) >= 10
