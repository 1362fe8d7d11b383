# SPDX-License-Identifier: Apache-2.0
"""Verdict words for flows whose ends may have several places: one answer, or none.

The verdict at an end depends on the unknown attributes of either end, independently. So every place of
the source is evaluated with every place of the destination, and all answers must be equal.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from policyc.backends.llvm.batch import Flows, Verdicts, Words, words
from policyc.backends.llvm.native import NativeEvaluator
from policyc.compiler.driver.eval.native_ends import (
    Flags,
    FlowEnds,
    Numbers,
)
from policyc.compiler.frontend.flows.columns import FlowColumns
from policyc.ir.services import is_neighbour_discovery

_CHUNK = 1 << 20
"""The number of combinations of places at a time, unless a single flow has more."""


class WordsOfFlows:
    """The words of both ends of each flow, if `is_answered`."""

    def __init__(self, ends: FlowEnds, flows: FlowColumns) -> None:
        self.native = NativeEvaluator(ends.ends.decision, ends.ends)
        self._ends = ends
        self._src, self._dst, asked = (
            np.frombuffer(column, dtype=np.uint32) for column in (flows.src, flows.dst, flows.asked)
        )
        questions = flows.questions
        self._family = np.array([f == 6 for f, _, _ in questions], dtype=np.intp)[asked]
        self._keys = words([service.key for _, service, _ in questions])[asked]
        self._n_src = ends.count[self._src, self._family]
        self._n_dst = ends.count[self._dst, self._family]
        discovery = np.array([is_neighbour_discovery(service) for _, service, _ in questions])
        self.is_answered = self._can_be_asked(discovery[asked])
        self.egress, self.ingress = (np.zeros(len(flows), dtype=np.uint32) for _ in range(2))
        combinations = self._n_src * self._n_dst
        self._answer_known(np.flatnonzero(self.is_answered & (combinations == 1)))
        unknown = np.flatnonzero(self.is_answered & (combinations > 1))
        for part in _parts(unknown, combinations[unknown]):
            self._answer_unknown(part)

    def _can_be_asked(self, is_discovery: Flags) -> Flags:
        """The flows that native code can answer.

        All but: ends without a place, a node with a pod that may be its own, two replicas of one
        template, and neighbour discovery with an unknown destination.
        """
        ends, src, dst = self._ends, self._src, self._dst
        by_node = ends.is_open[src] & ends.is_node[dst] | ends.is_node[src] & ends.is_open[dst]
        to_replica = ends.is_anywhere[dst] & (ends.same[src] == ends.same[dst])
        on_link = ends.is_anywhere[dst] & is_discovery
        found: Flags = (self._n_src * self._n_dst > 0) & ~by_node & ~to_replica & ~on_link
        return found

    def _answer_known(self, at: Numbers) -> None:
        found = self._ask(at, np.zeros_like(at), np.zeros_like(at))
        self.egress[at], self.ingress[at] = found.egress, found.ingress

    def _answer_unknown(self, at: Numbers) -> None:
        """Every place with every place; flows with one answer at each end are answered."""
        n_dst = self._n_dst[at]
        counts = self._n_src[at] * n_dst
        starts = np.cumsum(counts) - counts
        which = np.repeat(np.arange(len(at)), counts)
        within = np.arange(len(which)) - starts[which]
        found = self._ask(at[which], within // n_dst[which], within % n_dst[which])
        for own, column in ((self.egress, found.egress), (self.ingress, found.ingress)):
            own[at] = column[starts]
            is_one = _is_one(column, starts)
            self.is_answered[at[~is_one]] = False

    def _ask(self, at: Numbers, src: Numbers, dst: Numbers) -> Verdicts:
        """Evaluate flows by index, with the places of their ends by number among those of each end."""
        numbers, first, family = self._ends.numbers, self._ends.first, self._family[at]
        sources = numbers[first[self._src[at], family] + src]
        destinations = numbers[first[self._dst[at], family] + dst]
        return self.native.verdicts(Flows(words(sources), words(destinations), self._keys[at]))


def _is_one(column: Words, starts: Numbers) -> Flags:
    """For each run of a column, by its start, whether all of it is one word."""
    least: npt.NDArray[np.bool_] = np.minimum.reduceat(column, starts) == np.maximum.reduceat(
        column, starts
    )
    return least


def _parts(at: Numbers, counts: Numbers) -> Iterator[Numbers]:
    """Indices in portions with a limited number of combinations."""
    if len(at):
        ends = np.flatnonzero(np.diff(np.cumsum(counts) // _CHUNK)) + 1
        yield from np.split(at, ends)
