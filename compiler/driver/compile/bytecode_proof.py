# SPDX-License-Identifier: Apache-2.0
"""The two lemmas of the bytecode (docs/decisions/0040) over one generation, as a bundle has it.

Data lemma: the seeds, read through the lookup plan, are the Decision IR. Code lemma: the first-packet
program follows the plan, whatever its tables hold. With a build cache, a proof about the same object,
plan, code and solver is reused.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address

from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
    source_digest,
)
from policyc.compiler.driver.installed import release_of
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.plan import LookupPlan
from policyc.ir.results.prove import ProofStatus, ProvedPart
from policyc.verifier.bytecode.errors import BytecodeError, UnmodelledError
from policyc.verifier.bytecode.object import read_object
from policyc.verifier.decision.outcome import Broken
from policyc.verifier.smt.solver_choice import Choice
from policyc.verifier.translation.code_lemma import CodeLemma
from policyc.verifier.translation.data_lemma import DataLemma
from policyc.verifier.translation.generation import LoadedMap, generation_of
from policyc.verifier.translation.planned_maps import map_claims
from policyc.verifier.translation.policy_runs import run_policy
from policyc.verifier.translation.seeded import SeedError
from policyc.verifier.translation.shared_layouts import layout_faults, map_faults

CODE = "bytecode is the plan"
DATA = "seeds are the Decision IR"
ASSUMPTIONS = (
    "the front end reads the policies correctly (tested by cases and an independent evaluator)",
    "the reference semantics and its translation into terms are correct (property tests)",
    "the bytecode executor, its maps and helpers behave like the kernel (random programs run on both)",
    "the kernel's verifier, its JIT compiler and the hardware are correct",
    "hooks pass the packet's fields to the policy program and obey its verdict (packet tests)",
    "the node assigns endpoints the classes in classifier.json (tests)",
    "the named solvers are correct",
)
"""The assumptions of the proof: docs/assurance.md has a row for each."""
SOCKET_ASSUMPTION = "programs at sockets deny only what the policy program denies (socket tests)"
"""One more, for a program that has them."""
_SOLVER_PACKAGES = {
    Choice.Z3: ("z3-solver",),
    Choice.BITWUZLA: ("bitwuzla",),
    Choice.BOTH: ("z3-solver", "bitwuzla"),
}
_MOST_FAULTS = 5


@dataclass(frozen=True)
class ProvedGeneration:
    """The input of a proof about a generation: decisions, their layout, and the bytes.

    `hooks` are those that the program runs behind: layouts that both share must be the same.
    """

    decision: DecisionIR
    plan: LookupPlan
    object: bytes
    hooks: bytes
    maps: tuple[LoadedMap, ...]
    others: tuple[bytes, ...] = ()
    """The node's objects whose maps the object shares, too, where it has programs at sockets."""


def solvers_of(choice: Choice) -> tuple[tuple[str, str], ...]:
    """(name, version) of the solvers. ModuleNotFoundError if one is not installed."""
    names = _SOLVER_PACKAGES[choice]
    return tuple((name.removesuffix("-solver"), release_of(name)) for name in names)


def prove_generation(
    given: ProvedGeneration, solver: Choice, cache: BuildCache | None = None
) -> tuple[ProvedPart, ProvedPart]:
    """Both lemmas, the code lemma last: it is skipped if the seeds are wrong."""
    lemma = _data_lemma(given)
    data = _data(given, lemma)
    if data.status is not ProofStatus.PROVED or isinstance(lemma, ProvedPart):
        why = "not checked: the tables differ from those of the plan"
        return data, _part(CODE, ProofStatus.UNDECIDED, (why,))
    return data, _code(given, lemma, solver, cache)


def _data_lemma(given: ProvedGeneration) -> DataLemma | ProvedPart:
    try:
        found = generation_of(given.maps)
    except SeedError as fault:
        return _part(DATA, ProofStatus.REFUTED, (str(fault),))
    return DataLemma(given.decision, given.plan, found.tables, found.tries)


def _data(given: ProvedGeneration, lemma: DataLemma | ProvedPart) -> ProvedPart:
    if isinstance(lemma, ProvedPart):
        return lemma
    try:
        faults = tuple(_first(map(_words, lemma.faults())))
    except KeyError as missing:
        return _part(DATA, ProofStatus.REFUTED, (f"there is no map {missing.args[0]}",))
    if faults:
        return _part(DATA, ProofStatus.REFUTED, faults)
    cells = sum(
        len(row)
        for direction in given.plan.used_directions
        for row in given.decision.table(direction.direction)
    )
    return _part(DATA, ProofStatus.PROVED, (), cells)


def _words(broken: Broken) -> str:
    """A fault of the data lemma, with its place if it has one."""
    direction, row = broken.direction, broken.row
    place = f"{direction.value}, " if direction is not None else ""
    place += f"row {row}, " if row >= 0 else ""
    if broken.address is not None and broken.family:
        of_family = IPv4Address if broken.family == 4 else IPv6Address
        place += f"{of_family(broken.address)}, "
    return f"{place}{broken.what}"


def _first(faults: Iterable[str]) -> Iterator[str]:
    """The first few faults, as many as a reader needs."""
    for at, fault in enumerate(faults):
        if at == _MOST_FAULTS:
            yield "and more"
            return
        yield fault


def _code(
    given: ProvedGeneration, data: DataLemma, solver: Choice, cache: BuildCache | None
) -> ProvedPart:
    key = "" if cache is None else _key(given, data, solver)
    known = cache.get(key) if cache is not None else None
    if known is not None and known.isdigit():
        return _part(CODE, ProofStatus.PROVED, (), int(known))
    found = _code_anew(given, data, solver)
    if cache is not None and found.status is ProofStatus.PROVED:
        cache.put(key, str(found.claims).encode())
    return found


def _code_anew(given: ProvedGeneration, data: DataLemma, solver: Choice) -> ProvedPart:
    try:
        program, hooks = read_object(given.object), read_object(given.hooks)
        others = [*map(read_object, given.others)]
        apart = (*layout_faults(program, hooks), *map_faults(program, hooks, given.maps, others))
        if apart:  # the program would be read with layouts other than the hooks'
            return _part(CODE, ProofStatus.REFUTED, tuple(_first(apart)))
        runs = run_policy(program)
        missing = tuple(claim.what for claim in map_claims(runs.program, given.plan))
        if missing:  # lookups in them would mean nothing
            return _part(CODE, ProofStatus.REFUTED, missing)
        lemma = CodeLemma(runs, _read_by_code(given.plan), data.codes, solver)
        claims = sum(1 for _ in lemma.claims())
        faults = tuple(
            _first(f"{failed.claim.what} ({failed.case.title})" for failed in lemma.failed())
        )
    except UnmodelledError as unknown:
        why = f"the program uses something that the model lacks: {unknown}"
        return _part(CODE, ProofStatus.UNDECIDED, (why,))
    except BytecodeError as wrong:
        return _part(CODE, ProofStatus.REFUTED, (f"policy.bpf.o: {wrong}",))
    except (InternalError, RecursionError) as gave_up:
        return _part(CODE, ProofStatus.UNDECIDED, (f"the solver could not decide it: {gave_up}",))
    if faults:
        return _part(CODE, ProofStatus.REFUTED, faults)
    return _part(CODE, ProofStatus.PROVED, (), claims)


def _read_by_code(plan: LookupPlan) -> LookupPlan:
    """The plan without the parts of the seeds alone: the code is proved for all table contents."""
    directions = {
        each: replace(part, row_ids=(), column_ids=()) for each, part in plan.directions.items()
    }
    return replace(plan, directions=directions, nodes=(), cell_words=(), code_words=())


def _key(given: ProvedGeneration, data: DataLemma, solver: Choice) -> str:
    """Everything that the answer of the code lemma depends on."""
    code = source_digest("policyc.verifier", "policyc.ir")
    said = json.dumps(solvers_of(solver))
    codes = repr(sorted(data.codes.items()))
    maps = repr([replace(each, seed=b"") for each in given.maps])
    shared: tuple[str | bytes, ...] = (given.hooks, *given.others, maps)
    return key_of(
        "code lemma", code, said, given.object, *shared, repr(_read_by_code(given.plan)), codes
    )


def _part(lemma: str, status: ProofStatus, faults: tuple[str, ...], claims: int = 0) -> ProvedPart:
    return ProvedPart(lemma, _SAYS[lemma], status, claims, faults)


_SAYS = {
    CODE: "for every flow and all contents of tables, policy.bpf.o decides as the lookup plan says",
    DATA: "the lookup plan maps the seeds of every cell and address to its decision",
}
