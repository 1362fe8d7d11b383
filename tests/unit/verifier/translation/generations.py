# SPDX-License-Identifier: Apache-2.0
"""Generations of the kernel corpus as a bundle would have them: decisions, plan, seeds, object."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property

from policyc.backends.ebpf_c.frames import Budgets
from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.compile.bundle import policy_object
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.target import (
    Backend,
    Target,
)
from policyc.ir.decision import DecisionIR
from policyc.ir.plan import AddressLayout, Counters, LookupPlan
from policyc.verifier.translation.data_lemma import DataLemma
from policyc.verifier.translation.generation import LoadedMap, generation_of
from tests.kernel_corpus.build import decided_case
from tests.kernel_corpus.case import CorpusCase
from tests.kernel_corpus.corpus import all_cases


@dataclass(frozen=True)
class Made:
    """The compiler's output for a case."""

    decision: DecisionIR
    emitted: Emitted

    @property
    def plan(self) -> LookupPlan:
        """Its lookup plan."""
        return self.emitted.plan

    @cached_property
    def object(self) -> bytes:
        """Its policy program."""
        return bytes(policy_object(self.emitted, None))

    def lemma(self, seeds: Iterable[Seed] | None = None) -> DataLemma:
        """The data lemma over these seeds, or its own."""
        found = generation_of(
            LoadedMap(
                each.map_name,
                each.kind,
                each.entries,
                each.key_bytes or 4,
                4 * len(each.fields),
                each.data,
            )
            for each in (self.emitted.seeds if seeds is None else seeds)
            if each.kind in ("array", "lpm")
        )
        return DataLemma(self.decision, self.plan, found.tables, found.tries)


@cache
def made(name: str, backend: Backend = Backend.C, addresses: AddressLayout | None = None) -> Made:
    """A case of the corpus, decided and emitted; `addresses` requests a layout instead of the best."""
    return made_of(_corpus()[name], backend, addresses)


@cache
def _corpus() -> dict[str, CorpusCase]:
    return {case.name: case for case in all_cases()}


def made_of(
    case: CorpusCase, backend: Backend = Backend.C, addresses: AddressLayout | None = None
) -> Made:
    """A case, decided and emitted."""
    decision = decided_case(case).decision
    target = Target(backend, Counters(case.counters), case.at_sockets)
    budgets = Budgets(addresses=addresses, diagrams=case.diagrams)
    return Made(decision, emit_all(decision, budgets, target))
