# SPDX-License-Identifier: Apache-2.0
"""All runs of an object's policy program, as the lemmas see them: flow, outcome, side effects."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.object import BpfObject
from policyc.verifier.bytecode.pointers import Pointer
from policyc.verifier.bytecode.program import Program, link_program
from policyc.verifier.bytecode.state import first_state
from policyc.verifier.bytecode.symbolic.all_runs import (
    Ended,
    Runner,
)
from policyc.verifier.bytecode.symbolic.environment import (
    Deed,
    Surroundings,
    TableRead,
)
from policyc.verifier.bytecode.symbolic.unknown import UnknownMemory
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits
from policyc.verifier.translation.reading import Flow

ENTRY = "pc_policy_run"
SCRATCH = "pc_scratch"
ROOM = "pc_room"
"""Scratch memory for values before they are stored (runtime/datapath/quota.h)."""
CONTEXT = "skb"
CONTEXT_SIZE = 192
"""Bytes of struct __sk_buff, as programs see it."""

TABLES = ("pc_class", "pc_nodes", "pc_effects")
TABLES_BY_DIRECTION = ("pc_cells", "pc_buckets", "pc_usual", "pc_root4", "pc_cidr4", "pc_cidr6")
"""Maps that do not change while the generation is in force."""


@dataclass(frozen=True)
class PolicyRuns:
    """The program's ends, and its side effects, each with its guard."""

    source: BpfObject
    program: Program
    domain: TermDomain
    ends: Sequence[Ended]
    deeds: Sequence[Deed]
    reads: Sequence[TableRead]

    def field(self, path: str) -> Bits:
        """A member of `struct pc_flow` as the hook stored it, in as many bits as it has."""
        place = self.source.btf.place("pc_flow", path)
        return self._bytes(place.offset, self.source.btf.size(place.type))

    def _bytes(self, offset: int, size: int) -> Bits:
        memory = UnknownMemory(self.domain, SCRATCH, self.program.maps[SCRATCH].value_size)
        value = memory.load(offset, size)
        if isinstance(value, Pointer):
            raise UnmodelledError("a flow has a pointer")
        return value

    @cached_property
    def flow(self) -> Flow:
        """The flow that the policy decides."""
        return Flow(
            src=self.field("src.id"),
            dst=self.field("dst.id"),
            family=self._word("tuple.family", 8),
            number=self._word("tuple.proto", 8),
            port=self.domain.zero_extend(self.domain.swap(self.field("tuple.dport"), 16), 16, 32),
            icmp=self._word("packet.icmp", 16),
            saddr=self._address("tuple.saddr"),
            daddr=self._address("tuple.daddr"),
        )

    def _word(self, path: str, width: int) -> Bits:
        return self.domain.zero_extend(self.field(path), width, 32)

    def _address(self, path: str) -> list[Bits]:
        first = self.source.btf.offset_of("pc_flow", path)
        return [self.domain.swap(self._bytes(first + 4 * i, 4), 32) for i in range(4)]


def is_table(name: str) -> bool:
    """Whether a map does not change while its generation is in force."""
    return name in TABLES or name.rpartition("_")[0] in TABLES_BY_DIRECTION


def run_policy(source: BpfObject) -> PolicyRuns:
    """Run the policy program of an object on every possible input."""
    program = link_program(source, ENTRY)
    domain = TermDomain()
    tables = frozenset(name for name in program.maps if is_table(name))
    around = Surroundings(program, domain, tables, frozenset({SCRATCH, ROOM}))
    runner = Runner(program, around, domain)
    around.runner = runner
    context = UnknownMemory(domain, CONTEXT, CONTEXT_SIZE, around.stored_into(CONTEXT))
    ends = runner.run(first_state(domain, ENTRY, context))
    return PolicyRuns(source, program, domain, ends, around.deeds, around.reads)
