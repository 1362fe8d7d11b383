# SPDX-License-Identifier: Apache-2.0
"""Every rewriting is correct: a term has the value of the operations that made it.

Random operations run twice, on nodes and on the numbers of some inputs. For these inputs, the node and
either solver's term evaluate to the number.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import bitwuzla
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.verifier.bytecode.evaluation import evaluate, known
from policyc.verifier.bytecode.lowering import BitwuzlaLanguage, Lowering, Z3Language
from policyc.verifier.bytecode.nodes import Node, below
from policyc.verifier.bytecode.substitution import Substitution
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.term_truths import reduced
from policyc.verifier.bytecode.values import NUMBERS, Bits, Cmp, Op, Truth, mask, number
from tests.property.length import examples

WIDTHS = (1, 2, 7, 8, 16, 32, 64)
N_INPUTS = 12


@dataclass
class Both:
    """The terms so far, each with its value for each input."""

    rng: random.Random
    domain: TermDomain = field(default_factory=TermDomain)
    inputs: list[dict[Node, int]] = field(default_factory=list)
    bits: list[tuple[Bits, int, list[int]]] = field(default_factory=list)
    truths: list[tuple[Truth, list[bool]]] = field(default_factory=list)

    def begin(self) -> None:
        """Variables of some widths, and truths."""
        self.inputs = [{} for _ in range(N_INPUTS)]
        for at in range(6):
            width = self.rng.choice(WIDTHS)
            node = self.domain.variable(f"v{at}", width)
            self.bits.append((node, width, self._given(node, width)))
        for at in range(3):
            node = self.domain.truth(f"t{at}")
            self.truths.append((node, [bool(each) for each in self._given(node, 1)]))

    def _given(self, node: Node, width: int) -> list[int]:
        values = [a_number(self.rng, width) for _ in range(N_INPUTS)]
        for inputs, value in zip(self.inputs, values, strict=True):
            inputs[node] = value
        return values

    def operand(self, width: int) -> tuple[Bits, list[int]]:
        """A term of a width, made to fit where there is none, or a number."""
        if self.rng.random() < 0.25:
            value = a_number(self.rng, width)
            return value, [value] * N_INPUTS
        fitting = [each for each in self.bits if each[1] == width]
        if fitting and self.rng.random() < 0.8:
            bits, _, values = self.rng.choice(fitting[-6:])
            return bits, values
        bits, of, values = self.rng.choice(self.bits)
        if of > width:
            low = self.rng.randint(0, of - width)
            return self.domain.extract(bits, low, width, of), [
                value >> low & mask(width) for value in values
            ]
        if self.rng.random() < 0.5:
            return self.domain.sign_extend(bits, of, width), [
                number(NUMBERS.sign_extend(value, of, width)) for value in values
            ]
        return self.domain.zero_extend(bits, of, width), values

    def grow(self) -> None:
        """One more term."""
        width = self.rng.choice(WIDTHS)
        match self.rng.randrange(7):
            case 0 | 1:
                op = self.rng.choice(list(Op))
                (a, ours), (b, theirs) = self.operand(width), self.operand(width)
                values = [
                    number(NUMBERS.binary(op, *each, width))
                    for each in zip(ours, theirs, strict=True)
                ]
                self.bits.append((self.domain.binary(op, a, b, width), width, values))
            case 2:
                cmp = self.rng.choice(list(Cmp))
                (a, ours), (b, theirs) = self.operand(width), self.operand(width)
                found = [
                    bool(NUMBERS.compare(cmp, *each, width))
                    for each in zip(ours, theirs, strict=True)
                ]
                self.truths.append((self.domain.compare(cmp, a, b, width), found))
            case 3:
                self._join(width)
            case 4 | 5:
                condition, holds = self.rng.choice(self.truths[-8:])
                (a, ours), (b, theirs) = self.operand(width), self.operand(width)
                values = [
                    one if holding else other
                    for holding, one, other in zip(holds, ours, theirs, strict=True)
                ]
                self.bits.append((self.domain.choose(condition, a, b, width), width, values))
            case _:
                self._combine()

    def _join(self, width: int) -> None:
        parts = [(self.operand(width), width) for _ in range(self.rng.randint(2, 3))]
        bits = self.domain.concat([(each, of) for (each, _), of in parts])
        values = [
            number(NUMBERS.concat([(each[at], of) for (_, each), of in parts]))
            for at in range(N_INPUTS)
        ]
        self.bits.append((bits, width * len(parts), values))

    def _combine(self) -> None:
        chosen = [self.rng.choice(self.truths) for _ in range(self.rng.randint(1, 4))]
        denied = [(self.domain.no(a), [not each for each in holds]) for a, holds in chosen[::2]]
        several = [*denied, *chosen[1::2]]
        if self.rng.random() < 0.5:
            truth = self.domain.all_of(each for each, _ in several)
            found = [all(holds) for holds in zip(*(each for _, each in several), strict=True)]
        else:
            truth = self.domain.any_of(each for each, _ in several)
            found = [any(holds) for holds in zip(*(each for _, each in several), strict=True)]
        self.truths.append((truth, found))


def a_number(rng: random.Random, width: int) -> int:
    edges = (0, 1, mask(width), 1 << width - 1, mask(width) >> 1, width, 0xFF, 0xFFFF0000)
    some = rng.choice(edges) if rng.random() < 0.5 else rng.getrandbits(width)
    return some & mask(width)


def grown(seed: int, steps: int = 40) -> Both:
    both = Both(random.Random(seed))
    both.begin()
    for _ in range(steps):
        both.grow()
    return both


def terms_of(both: Both) -> list[tuple[Any, list[int]]]:
    """All terms that are no numbers, with their values; truths as 0 and 1."""
    found: list[tuple[Any, list[int]]] = [(bits, values) for bits, _, values in both.bits]
    return found + [(truth, [int(each) for each in holds]) for truth, holds in both.truths]


def check_meaning(both: Both) -> None:
    roots = [term for term, _ in terms_of(both) if isinstance(term, Node)]
    order = below(*roots)
    for at, inputs in enumerate(both.inputs):
        values = dict(inputs)
        evaluate(order, values)
        for term, wanted in terms_of(both):
            assert known(term, values) == wanted[at]


@settings(max_examples=examples(400, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_term_has_the_value_of_its_operation(seed: int) -> None:
    check_meaning(grown(seed))


@settings(max_examples=examples(60, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_z3_means_the_same(seed: int) -> None:
    both, lower = grown(seed, 15), Lowering(Z3Language())
    pairs = [
        (lower(node), z3.BitVecVal(value, node.width) if node.width else z3.BoolVal(bool(value)))
        for node, value in both.inputs[0].items()
    ]
    for term, values in terms_of(both):
        if isinstance(term, Node):
            found = z3.simplify(z3.substitute(lower(term), *pairs))
            assert (found.as_long() if term.width else int(z3.is_true(found))) == values[0]


@settings(max_examples=examples(60, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bitwuzla_means_the_same(seed: int) -> None:
    both, language = grown(seed, 15), BitwuzlaLanguage(bitwuzla)
    lower = Lowering(language)
    said = [equality(lower, language, node, value) for node, value in both.inputs[0].items()]
    solver = bitwuzla.Bitwuzla(language.manager)
    for each in said:
        solver.assert_formula(each)
    for term, values in terms_of(both):
        if isinstance(term, Node):
            other = language.apply("not", [equality(lower, language, term, values[0])], ())
            assert solver.check_sat(other) == bitwuzla.Result.UNSAT


def equality(lower: Lowering, language: BitwuzlaLanguage, node: Node, value: int) -> Any:
    number_ = language.number(value, node.width) if node.width else language.truth(bool(value))
    return language.apply("eq", [lower(node), number_], ())


@settings(max_examples=examples(150, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_substitution_replaces_every_occurrence(seed: int) -> None:
    both = grown(seed)
    rng = random.Random(seed)
    given_ = {node: both.inputs[0][node] for node in both.inputs[0] if rng.random() < 0.6}
    instead: dict[Node, Any] = {
        node: value if node.width else bool(value) for node, value in given_.items()
    }
    now = Substitution(both.domain, instead)
    for term, wanted in terms_of(both):
        found = now(term)
        values = dict(both.inputs[0])
        if isinstance(found, Node):
            evaluate(below(found), values)
        assert known(found, values) == wanted[0]


@settings(max_examples=examples(150, 2), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_reduced_terms_have_the_same_value(seed: int) -> None:
    both = grown(seed, 60)
    for truth, holds in both.truths:
        less = reduced(both.domain, truth)
        for inputs, wanted in zip(both.inputs, holds, strict=True):
            values = dict(inputs)
            if isinstance(less, Node):
                evaluate(below(less), values)
            assert bool(known(less, values)) == wanted


def test_a_wrong_rewriting_is_noticed() -> None:
    class Wrong(TermDomain):
        def _sum(self, a: Any, b: Any, width: int) -> Bits:
            if isinstance(b, int) and b == mask(width):
                return a if isinstance(a, Node) else 0
            return super()._sum(a, b, width)

    assert refuted(Wrong)


def refuted(domain: Callable[[], TermDomain]) -> bool:
    for seed in range(300):
        both = Both(random.Random(seed), domain())
        both.begin()
        for _ in range(40):
            both.grow()
        try:
            check_meaning(both)
        except AssertionError:
            return True
    return False
