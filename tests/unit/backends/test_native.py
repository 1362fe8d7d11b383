# SPDX-License-Identifier: Apache-2.0
"""The native evaluator keeps to its batch: no number is read from outside its tables."""

import random
from dataclasses import replace
from ipaddress import ip_address

import numpy as np
import pytest

from policyc.backends.llvm.batch import Flows, Special, words
from policyc.backends.llvm.ends import Ends
from policyc.backends.llvm.layout import (
    N_KEYS,
    Code,
    Dense,
    Limits,
    Searched,
    lay_out,
    segment_of_key,
)
from policyc.backends.llvm.native import NativeEvaluator
from policyc.ir.decide import decide
from policyc.ir.decision import DecisionIR
from policyc.ir.errors import InternalError
from policyc.ir.partition import partition
from policyc.ir.policy import Direction, PolicySet
from policyc.ir.universe import Endpoint, HostInterface, Node, Universe
from policyc.ir.vocabulary import vocabulary_of
from tests.property.cases import random_case


def decision_of(seed: int) -> tuple[DecisionIR, Universe]:
    case = random_case(random.Random(seed), max_policies=8)
    decision = decide(case.policies, partition(vocabulary_of(case.policies), case.universe))
    return decision, case.universe


@pytest.fixture
def native() -> NativeEvaluator:
    decision, universe = decision_of(3)
    ends = Ends(decision)
    for endpoint in universe.endpoints:
        for address in endpoint.addresses:
            assert ends.add(endpoint, address.version) is not None
    return NativeEvaluator(decision, ends)


@pytest.mark.parametrize("column", ["src", "dst", "service"])
def test_a_number_beyond_the_tables_is_refused(native: NativeEvaluator, column: str) -> None:
    fine = Flows(words([0, 1]), words([1, 0]), words([0, N_KEYS - 1]))
    assert len(native.verdicts(fine).allowed) == 2
    limit = N_KEYS if column == "service" else native.n_ends
    with pytest.raises(InternalError, match=f"number {limit} of {limit}"):
        native.verdicts(replace(fine, **{column: words([0, limit])}))
    with pytest.raises(InternalError, match="equally long"):
        native.verdicts(replace(fine, **{column: words([0])}))
    with pytest.raises(InternalError, match="32 bits"):
        native.verdicts(replace(fine, **{column: np.array([0, 1], dtype=np.uint64)}))


def test_classes_beyond_the_tables_are_refused(native: NativeEvaluator) -> None:
    rows, columns = len(native.decision.atoms.rows), len(native.decision.atoms.columns)
    for row, column, key in ((rows, 0, 0), (0, columns, 0), (0, 0, N_KEYS)):
        with pytest.raises(InternalError, match="names number"):
            native.decide(Direction.INGRESS, words([row]), words([column]), words([key]))


def test_an_empty_batch_has_no_answers(native: NativeEvaluator) -> None:
    nothing = words([])
    found = native.verdicts(Flows(nothing, nothing, nothing))
    assert len(found.egress) == len(found.ingress) == len(found.allowed) == 0


def test_without_policies_everything_is_allowed() -> None:
    policies = PolicySet(())
    pod = Endpoint("a", "one", addresses=(ip_address("10.0.0.1"),))
    decision = decide(policies, partition(vocabulary_of(policies), Universe((pod,))))
    ends = Ends(decision)
    given = [ends.add(pod, 4), ends.add(ip_address("192.0.2.1"), 4)]
    assert None not in given
    native = NativeEvaluator(decision, ends)
    found = native.verdicts(Flows(words(given), words(given[::-1]), words([80, 443])))
    assert found.allowed.tolist() == [1, 1]
    assert [native.special(word) for word in found.egress.tolist()] == [None, Special.OUTSIDE]


def test_flows_that_tables_cannot_decide_have_no_number() -> None:
    decision, universe = decision_of(3)
    ends = Ends(decision)
    pod = universe.endpoints[0]
    unknown = replace(pod, addresses=(), addresses_known=False)
    guarded = Node("n", addresses=(ip_address("192.0.2.9"),), host=HostInterface("n", {}, True))
    assert [ends.add(end, 4) for end in (unknown, guarded)] == [None, None]
    with pytest.raises(InternalError, match="no place"):
        ends.hold(ip_address("192.0.2.9"), guarded)


def test_classes_that_the_tables_were_not_made_for_have_no_number() -> None:
    case = random_case(random.Random(3), max_policies=8)
    decision = decide(case.policies, partition(vocabulary_of(case.policies), Universe()))
    ends = Ends(decision)
    placed = {
        ends.add(pod, address.version) is not None
        for pod in case.universe.endpoints
        for address in pod.addresses
    }
    assert False in placed


def test_layers_that_disagree_are_noticed() -> None:
    decision, _ = decision_of(3)
    assert len(decision.action_diagrams) > 1
    cells = tuple(
        replace(cell, action=next(d for d in decision.action_diagrams if d != cell.action))
        for cell in decision.cells
    )
    with pytest.raises(InternalError, match="layers of the Decision IR disagree"):
        lay_out(replace(decision, cells=cells))


def test_each_limit_chooses_its_layout() -> None:
    decision, _ = decision_of(3)
    assert isinstance(lay_out(decision, Limits(code_steps=1 << 20)).leaves, Code)
    assert isinstance(lay_out(decision, Limits(code_steps=0)).leaves, Dense)
    assert isinstance(lay_out(decision, Limits(code_steps=0, dense_bytes=0)).leaves, Searched)


def test_segments_cover_every_key() -> None:
    table = segment_of_key([0, 80, 81, 1 << 16])
    assert len(table) == N_KEYS
    assert [table[key] for key in (0, 79, 80, 81, 65535, 1 << 16, N_KEYS - 1)] == [
        0, 0, 1, 2, 2, 3, 3,
    ]  # fmt: skip
