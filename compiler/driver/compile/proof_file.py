# SPDX-License-Identifier: Apache-2.0
"""proof.json of a bundle: what was proved at compile time, about which bytes, under which assumptions.

It has no times, paths or facts of the host, so a bundle stays the same bytes. It is a statement, not
evidence: `policyc prove` proves everything again, and trusts nothing that is written here.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from policyc.backends.ebpf_c.seeds import Data, Seed
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.compile.bundle import (
    CLASSIFIER_FILE,
    POLICY_OBJECT,
    RULES_FILE,
)
from policyc.compiler.driver.compile.bytecode_proof import (
    ASSUMPTIONS,
    SOCKET_ASSUMPTION,
    ProvedGeneration,
    prove_generation,
    solvers_of,
)
from policyc.compiler.driver.compile.emission import Emitted
from policyc.compiler.driver.compile.json_lines import json_text
from policyc.compiler.driver.compile.target import HOOKS
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import HostError, InternalError
from policyc.ir.results.prove import ProofStatus, ProvedPart
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation.generation import LoadedMap

PROOF_SCHEMA = "policyc.dev/proof/v1"
WORD = 4


def proof_text(
    parts: Iterable[ProvedPart],
    files: Mapping[str, Data],
    solvers: Iterable[tuple[str, str]],
    universe: str,
    connects: bool = False,
) -> str:
    """The file's text. `files` are those that were proved or that the proof reads, by name."""
    value: dict[str, Any] = {
        "schema": PROOF_SCHEMA,
        "universe": universe,
        "proved": [
            {"lemma": part.lemma, "what": part.what, "claims": part.claims} for part in parts
        ],
        "of": {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)},
        "solvers": [{"name": name, "version": version} for name, version in solvers],
        "assumptions": [*ASSUMPTIONS, *([SOCKET_ASSUMPTION] if connects else [])],
    }
    return json_text(value)


@dataclass(frozen=True)
class BundleProver:
    """Proves the bytes of a bundle while `write_bundle` makes it."""

    decision: DecisionIR
    universe: str
    solver: Choice
    cache: BuildCache | None = None

    def __call__(self, emitted: Emitted, files: Mapping[str, Data]) -> str:
        """The text of proof.json; InternalError or HostError if a part is not proved."""
        maps = tuple(map(as_loaded, emitted.seeds))
        program = bytes(files[POLICY_OBJECT])
        hooks = bytes(files[HOOKS])
        others = tuple(bytes(files[name]) for name in emitted.target.shared_objects)
        given = ProvedGeneration(self.decision, emitted.plan, program, hooks, maps, others)
        parts = prove_generation(given, self.solver, self.cache)
        demand(parts)
        named = {name: data for name, data in files.items() if is_proved_of(name)}
        return proof_text(
            parts, named, solvers_of(self.solver), self.universe, emitted.target.at_sockets
        )


def as_loaded(seed: Seed) -> LoadedMap:
    """A map as the loader makes it: arrays have keys of one word, whatever the seed says."""
    return LoadedMap(
        seed.map_name,
        seed.kind,
        seed.entries,
        seed.key_bytes or WORD,
        WORD * len(seed.fields),
        seed.data,
    )


def is_proved_of(name: str) -> bool:
    """Whether the proof is about a file of a bundle, or reads it."""
    known = (POLICY_OBJECT, HOOKS, "plan.json", CLASSIFIER_FILE, RULES_FILE)
    return name in known or name.startswith("seeds/")


def demand(parts: Iterable[ProvedPart]) -> None:
    """Raise if a part is not proved: then nothing is written."""
    for part in parts:
        said = f"{part.lemma}: {'; '.join(part.faults)}"
        if part.status is ProofStatus.REFUTED:
            raise InternalError(f"the bytecode does not implement the policies: {said}")
        if part.status is ProofStatus.UNDECIDED:
            hint = "without --prove, the bundle is written with tested, but not proved bytecode"
            raise HostError(f"the bytecode is not proved: {said}; nothing was written", hint)
