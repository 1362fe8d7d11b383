# SPDX-License-Identifier: Apache-2.0
"""The parts of a proof, and its three outcomes."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Protocol

from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Direction
from policyc.verifier.decision.port_order import (
    Places,
    PortOrder,
    ServiceQuestion,
    original,
)
from policyc.verifier.decision.service_questions import Terms
from policyc.verifier.smt.lazy_z3 import z3
from policyc.verifier.smt.terms import Term


@dataclass(frozen=True, slots=True)
class Broken:
    """The fault of a Decision IR: the lemma, the words, and the place if it is known.

    `columns` is a mask. `key` is a service key and `address` a number, from the solver's model, with
    ports and addresses renamed back. Before there is a model, `address` is the address that the
    question's address 0 stands for.
    """

    lemma: str
    what: str
    direction: Direction | None = None
    row: int = -1
    columns: int = 0
    family: int = 0
    key: int | None = None
    address: int | None = None


class Question(Protocol):
    """The question of an obligation, with everything that its answer depends on.

    A frozen dataclass of plain values (numbers, texts, tuples of them), so its `repr` is complete: equal
    texts are equal questions, in this run and in any later one of this release.
    """

    def violated(self, terms: Terms) -> Term:
        """The term that must be unsatisfiable, made from the question's values alone."""
        ...


@dataclass(frozen=True, slots=True)
class Obligation:
    """A question whose term must be unsatisfiable, and the fault if it is not.

    `places`: how the ports in the question were renamed, if they were.
    """

    question: Question
    broken: Broken
    places: Places = field(default_factory=dict)


class Ledger(Protocol):
    """The questions that were proved before, by digest; `build cache` in docs/decisions/0015."""

    def has(self, digest: bytes) -> bool:
        """Whether this question was proved before."""
        ...

    def add(self, digest: bytes) -> None:
        """Record that this question is proved."""
        ...


def digest_of(question: Question) -> bytes:
    """The SHA-256 of a question's text."""
    return hashlib.sha256(repr(question).encode()).digest()


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


def discharge(obligations: Iterable[Obligation | Broken], ledger: Ledger | None = None) -> Outcome:
    """Have Z3 decide all questions, ports renamed, each once; the first that fails ends it.

    Questions in the ledger are not solved again, proved ones are added to it.
    """
    given = _Counted(obligations)
    terms = Terms()
    for batch in _batches(given, ledger):
        if isinstance(batch, Broken):
            return Refuted(batch)
        failed = _judge(batch, terms)
        if failed is not None:
            return failed
        if ledger is not None:
            for obligation in batch:
                ledger.add(digest_of(obligation.question))
    return Proved(given.count)


class _Counted:
    """Obligations, and how many of them were handled; equal ones count each."""

    def __init__(self, obligations: Iterable[Obligation | Broken]) -> None:
        self._obligations = obligations
        self.count = 0

    def __iter__(self) -> Iterator[Obligation | Broken]:
        for each in self._obligations:
            self.count += 1
            yield each


def _batches(
    obligations: Iterable[Obligation | Broken], ledger: Ledger | None
) -> Iterator[list[Obligation] | Broken]:
    """The questions to solve: none twice, under its own ports or renamed, none from the ledger."""
    batch: list[Obligation] = []
    given: set[Question] = set()
    asked: set[Question] = set()
    order = PortOrder()
    for obligation in obligations:
        if isinstance(obligation, Broken):
            yield obligation
            return
        if not _is_new(obligation.question, given):
            continue
        renamed = _renamed(obligation, order)
        if not _is_new(renamed.question, asked):
            continue
        if ledger is not None and ledger.has(digest_of(renamed.question)):
            continue
        batch.append(renamed)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_new(question: Question, among: set[Question]) -> bool:
    """Record a question; whether it is new. Its hash is slow, so it is computed once."""
    before = len(among)
    among.add(question)
    return len(among) > before


def _renamed(obligation: Obligation, order: PortOrder) -> Obligation:
    """The obligation as it is solved."""
    question = obligation.question
    if not isinstance(question, ServiceQuestion):
        return obligation
    renamed, places = order.renamed(question)
    return Obligation(renamed, obligation.broken, places)


def _judge(batch: list[Obligation], terms: Terms) -> Refuted | Undecided | None:
    violated = [obligation.question.violated(terms) for obligation in batch]
    solver = z3.SolverFor("QF_BV")
    solver.add(z3.Or(*violated))
    result = solver.check()
    if result == z3.unsat:
        return None
    if result == z3.unknown:
        return Undecided(solver.reason_unknown())
    model = solver.model()
    for obligation, term in zip(batch, violated, strict=True):
        if z3.is_true(model.eval(term, model_completion=True)):
            return Refuted(_placed(obligation, model))
    return Undecided("a model satisfies the batch and no obligation in it")


def _placed(obligation: Obligation, model: Term) -> Broken:
    """The fault, with the model's service key and address."""
    broken = obligation.broken
    values = {name.name(): model[name] for name in model.decls()}
    key = values.get("service")
    address = values.get(f"address{broken.family}")
    return replace(
        broken,
        key=0 if key is None else original(key.as_long(), obligation.places),
        address=(broken.address or 0) + (0 if address is None else address.as_long()),
    )
