# SPDX-License-Identifier: Apache-2.0
"""Native code as the second evaluator of a listing (`verifier/cluster/recheck.py`)."""

from collections.abc import Sequence

import numpy as np

from policyc.backends.llvm.batch import Flows, Special, words
from policyc.backends.llvm.ends import Ends
from policyc.backends.llvm.native import NativeEvaluator
from policyc.ir.decide import decide
from policyc.ir.partition import partition
from policyc.ir.policy import PolicySet
from policyc.ir.universe import End, Endpoint, Node, Universe
from policyc.ir.vocabulary import vocabulary_of
from policyc.verifier.cluster.recheck import Compared

_NO_PLACE = -1


class NativePairs:
    """The policies compiled for some ends; ends without a place in the tables are skipped."""

    def __init__(self, policies: PolicySet, ends: Sequence[tuple[End, int]]) -> None:
        endpoints = dict.fromkeys(end for end, _ in ends if isinstance(end, Endpoint))
        nodes = dict.fromkeys(end for end, _ in ends if isinstance(end, Node))
        universe = Universe(tuple(endpoints), tuple(nodes))
        self._decision = decide(policies, partition(vocabulary_of(policies), universe))
        placed = Ends(self._decision)
        numbers = [placed.add(end, family) for end, family in ends]
        self._number = np.array([_NO_PLACE if n is None else n for n in numbers])
        self._native = NativeEvaluator(self._decision, placed)

    @property
    def borders(self) -> Sequence[int]:
        """The keys at which some diagram has a step."""
        return sorted({lo for diagram in self._decision.diagrams for lo, _ in diagram})

    def compare(
        self, src: int, dsts: Sequence[int], keys: Sequence[int], listed: bytes
    ) -> Compared:
        """See `Evaluator`."""
        source, given = self._number[src], self._number[np.array(dsts, dtype=np.intp)]
        if source == _NO_PLACE:
            return Compared(0)
        to = np.repeat(np.maximum(given, 0), len(keys))
        found = self._native.verdicts(
            Flows(
                words(np.full(len(to), source)), words(to), words(np.tile(words(keys), len(dsts)))
            )
        )
        first = self._native.layout.n_rules + Special.TO_ITSELF - 1
        by_policies = (found.egress >> 1 < first) & (found.ingress >> 1 < first)
        asked = by_policies & np.repeat(given != _NO_PLACE, len(keys))
        wrong = asked & (found.allowed != np.frombuffer(listed, dtype=np.uint8))
        return Compared(int(asked.sum()), int(wrong.argmax()) if wrong.any() else None)
