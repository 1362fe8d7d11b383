# SPDX-License-Identifier: Apache-2.0
"""BPF_PROG_TEST_RUN of the right program and the wrong one on one flow, with the same maps before it."""

import random
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from policyc.backends.ebpf_c.seeds import Seed
from policyc.runtime.errors import HostError
from policyc.verifier.bytecode.object import read_object
from tests.kernel.faults.witness import Witness
from tests.kernel.support.policy_by_executor import (
    TABLES,
    Contents,
    Flows,
    KernelPolicy,
    loaded_policy,
    random_classes,
)
from tests.kernel_corpus.surroundings import own_bpffs

SEARCHED = 300
"""Flows by chance, where the model's own does not show it."""


@dataclass(frozen=True)
class Generation:
    """A program and what its maps are seeded with."""

    code: bytes
    seeds: Sequence[Seed]


@dataclass(frozen=True)
class Seen:
    """How the kernel saw it: by the witness, by chance, by refusing the wrong one; empty: not."""

    how: str
    what: str


@dataclass(frozen=True)
class _Program:
    """A loaded program, and where in a connection its number is, which the kernel draws."""

    kernel: KernelPolicy
    number: range

    def outcome(self, witness: Witness) -> tuple[int, Contents]:
        """The verdict on a witness, and what the run left otherwise in the maps."""
        kernel = self.kernel
        kernel.keep([each for each in witness.entries if self._has(each[0], each[1])])
        before = kernel.contents()
        return kernel.run(witness.flow), self._changed(before, kernel.contents())

    def _has(self, name: str, key: bytes) -> bool:
        definition = self.kernel.maps.get(name)
        if definition is None:
            return False
        return definition.key_size > 4 or int.from_bytes(key, "little") < definition.max_entries

    def _changed(self, before: Contents, after: Contents) -> Contents:
        found: Contents = {}
        for name, entries in after.items():
            changed = {key: each for key, each in entries.items() if before[name].get(key) != each}
            if name in TABLES[:4]:
                changed = {key: self._without_number(each) for key, each in changed.items()}
            gone = dict.fromkeys(before[name].keys() - entries.keys(), b"")
            if changed or gone:
                found[name] = changed | gone
        return found

    def _without_number(self, value: bytes) -> bytes:
        at = self.number
        return value[: at.start] + bytes(len(at)) + value[at.stop :]


def confirmed(
    right: Generation, wrong: Generation, witnesses: Iterable[Witness], folder: Path
) -> Seen:
    """Run both. What differs in words; `how` is empty where nothing does."""
    with ExitStack() as stack:
        programs = []
        for name, each in (("right", right), ("wrong", wrong)):
            place = folder / name
            place.mkdir()
            pins = stack.enter_context(own_bpffs(place / "bpffs"))
            try:
                kernel = stack.enter_context(loaded_policy(each.code, place, pins))
                kernel.fill(each.seeds)
            except (HostError, OSError) as refused:
                return Seen("refused" if name == "wrong" else "", f"{name}: {refused}")
            number = read_object(each.code).btf.place("pc_ct", "flow_id")
            programs.append(_Program(kernel, range(number.offset, number.offset + number.size)))
        for witness in witnesses:
            if told := _told_apart(programs, witness):
                return Seen("witness", told)
        return _by_chance(programs, right)


def _by_chance(programs: Sequence[_Program], right: Generation) -> Seen:
    """Flows near those that hooks write, over classes by chance."""
    read, rng = read_object(right.code), random.Random(1)
    flows = Flows(read, rng)
    if "pc_class" in read.maps:
        classes = random_classes(rng, read.maps["pc_class"])
        for program in programs:
            program.kernel.fill([classes])
    for _ in range(SEARCHED):
        if told := _told_apart(programs, Witness(flows.draw())):
            return Seen("chance", told)
    return Seen("", "nothing differs")


def _told_apart(programs: Sequence[_Program], witness: Witness) -> str:
    (one, had), (other, has) = (program.outcome(witness) for program in programs)
    if one != other:
        return f"the verdict is {_verdict(other)}, not {_verdict(one)}"
    apart = [name for name in sorted(had.keys() | has.keys()) if had.get(name) != has.get(name)]
    return f"{apart[0]} is left otherwise" if apart else ""


def _verdict(result: int) -> str:
    return {0xFFFFFFFF: "pass", 2: "drop"}.get(result, str(result))
