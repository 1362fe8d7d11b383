# SPDX-License-Identifier: Apache-2.0
"""What a proof is made of, and its three outcomes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import z3

from policyc.ir.policy import Direction
from policyc.verifier.terms import Term


@dataclass(frozen=True, slots=True)
class Broken:
    """What is wrong with a Decision IR: the lemma, the words, and where known the place.

    `columns` is a mask; `key` a service key and `address` a number, from the solver's model.
    """

    lemma: str
    what: str
    direction: Direction | None = None
    row: int = -1
    columns: int = 0
    family: int = 0
    key: int | None = None
    address: int | None = None


@dataclass(frozen=True, slots=True)
class Obligation:
    """A term that must be unsatisfiable, and what is wrong where it is not."""

    violated: Term
    broken: Broken


@dataclass(frozen=True, slots=True)
class Proved:
    """Equal on the whole universe, with the number of obligations that were discharged."""

    obligations: int


@dataclass(frozen=True, slots=True)
class Refuted:
    """Not equal."""

    broken: Broken


@dataclass(frozen=True, slots=True)
class Undecided:
    """The solver gave up: never the same as proved."""

    reason: str


Outcome = Proved | Refuted | Undecided

BATCH = 64
"""Obligations in one query: enough to spare solver set-up, few enough to stay quick."""


def discharge(obligations: Iterable[Obligation | Broken]) -> Outcome:
    """Have Z3 judge all obligations; the first that fails ends it."""
    count = 0
    for batch in _batches(obligations):
        if isinstance(batch, Broken):
            return Refuted(batch)
        failed = _judge(batch)
        if failed is not None:
            return failed
        count += len(batch)
    return Proved(count)


def _batches(obligations: Iterable[Obligation | Broken]) -> Iterator[list[Obligation] | Broken]:
    batch: list[Obligation] = []
    for obligation in obligations:
        if isinstance(obligation, Broken):
            yield obligation
            return
        batch.append(obligation)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _judge(batch: list[Obligation]) -> Refuted | Undecided | None:
    solver = z3.SolverFor("QF_BV")
    solver.add(z3.Or(*(obligation.violated for obligation in batch)))
    result = solver.check()
    if result == z3.unsat:
        return None
    if result == z3.unknown:
        return Undecided(solver.reason_unknown())
    model = solver.model()
    for obligation in batch:
        if z3.is_true(model.eval(obligation.violated, model_completion=True)):
            return Refuted(_placed(obligation.broken, model))
    return Undecided("a model satisfies the batch and no obligation in it")


def _placed(broken: Broken, model: Term) -> Broken:
    """The broken obligation with the model's service key and address."""
    values = {name.name(): model[name] for name in model.decls()}
    key = values.get("service")
    address = values.get(f"address{broken.family}")
    return replace(
        broken,
        key=0 if key is None else key.as_long(),
        address=0 if address is None else address.as_long(),
    )
