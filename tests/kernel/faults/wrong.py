# SPDX-License-Identifier: Apache-2.0
"""The faults: what a wrong compiler would have made in the place of what ours does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import pytest

from policyc.backends.ebpf_c.seeds import Seed
from policyc.compiler.driver.compile import objects
from policyc.compiler.driver.compile.target import Backend
from policyc.ir.plan import AddressLayout
from policyc.verifier.bytecode.elf import Relocation
from policyc.verifier.bytecode.object import BpfObject, read_object
from tests.unit.verifier.translation.generations import (
    Made,
    made,
)
from tests.unit.verifier.translation.wrong_programs import (
    IN_HEADERS,
    RESETS,
    WRONG,
)
from tests.unit.verifier.translation.wrong_seeds import (
    FAULTS,
    Damage,
    first,
    word,
)

ENTRY = "pc_policy_run"
ALLOW = 1 << 30


class Fault(Protocol):
    """One thing that is wrong in what a case of the corpus becomes."""

    @property
    def name(self) -> str:
        """What is wrong, in words."""
        ...

    @property
    def where(self) -> str:
        """Where it was put: C, header, object or seed."""
        ...

    @property
    def case(self) -> str:
        """The name of the case."""
        ...


@dataclass(frozen=True)
class InC:
    """Another text in the place of one that the policy's C has once."""

    name: str
    case: str
    right: str
    wrong: str
    where: str = "C"

    def is_there(self) -> bool:
        """Whether the C still has the text once."""
        return made(self.case).emitted.c.count(self.right) == 1

    def code(self) -> bytes:
        """The object of the wrong program."""
        text = made(self.case).emitted.c
        assert text.count(self.right) == 1, f"the C does not say `{self.right}` once"
        return objects.policy_object(text.replace(self.right, self.wrong), None)


@dataclass(frozen=True)
class InHeader:
    """The same in a header of the datapath; `count` is how often it stands there."""

    name: str
    case: str
    header: str
    right: str
    wrong: str
    count: int = 1
    where: str = "header"

    def is_there(self) -> bool:
        """Whether the header still has the text as often."""
        return objects.datapath_files()[self.header].decode().count(self.right) == self.count

    def code(self) -> bytes:
        """The object of the wrong program."""
        headers = objects.datapath_files()
        text = headers[self.header].decode()
        assert text.count(self.right) == self.count, f"{self.header}: `{self.right}`"
        changed = {**headers, self.header: text.replace(self.right, self.wrong).encode()}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "datapath_files", lambda: changed)
            # or what was compiled before would do
            source = f"/* {self.name} */\n{made(self.case).emitted.c}"
            return objects._compiled("policy.bpf.c", source)[0]


Patch = Callable[[bytearray, BpfObject], None]
"""Changes the instructions of the program in place; the object says what they refer to."""


@dataclass(frozen=True)
class InObject:
    """Another instruction in the place of one in the object that clang or LLVM made."""

    name: str
    case: str
    patch: Patch
    backend: Backend = Backend.C
    where: str = "object"

    def code(self) -> bytes:
        """The object with the wrong instruction."""
        right = made(self.case, self.backend).object
        read = read_object(right)
        section = read.elf.sections[read.places[ENTRY].section].data
        at = right.index(section)
        code = bytearray(section)
        self.patch(code, read)
        assert code != section, "nothing was changed"
        return right[:at] + bytes(code) + right[at + len(section) :]


@dataclass(frozen=True)
class InSeed:
    """Another content of a map."""

    name: str
    case: str
    map: str
    damage: Damage
    addresses: AddressLayout | None = None
    where: str = "seed"

    @cached_property
    def seeds(self) -> tuple[Seed, ...]:
        """All seeds of the case, one of them wrong."""
        return tuple(self._damaged(seed) for seed in source_of(self).made().emitted.seeds)

    def _damaged(self, seed: Seed) -> Seed:
        if seed.map_name != self.map:
            return seed
        data = bytearray(seed.data)
        self.damage(data)
        assert data != seed.data, "nothing was changed"
        return replace(seed, data=bytes(data))


CodeFault = InC | InHeader | InObject


def _jump(code: int, to: int) -> Patch:
    """The first jump by one comparison compares otherwise."""

    def patch(program: bytearray, _read: BpfObject) -> None:
        at = next(at for at in range(0, len(program), 8) if program[at] == code)
        program[at] = to

    return patch


def _no_class(program: bytearray, read: BpfObject) -> None:
    """The first look at a class finds nothing: `call 1` becomes `r0 = 0`."""
    section = read.places[ENTRY].section
    named = {at for (of, at), each in read.relocated.items() if of == section and _is_class(each)}
    at = next(
        at for at in range(8 * min(named), len(program), 8) if program[at : at + 8] == _CALL_LOOKUP
    )
    program[at : at + 8] = b"\xb7" + bytes(7)


def _is_class(found: Relocation) -> bool:
    return found.symbol.name == "pc_class"


_CALL_LOOKUP = b"\x85\0\0\0\x01\0\0\0"
_JLT_K, _JGT_K, _JSLT_K, _JSGT_K = 0xA6, 0x26, 0xC6, 0x66  # of 32 bits, with a constant
_JEQ_K, _JNE_K = 0x16, 0x56


CODE_FAULTS: tuple[CodeFault, ...] = (
    *(InC(name, "cidr4", right, wrong) for name, (right, wrong) in WRONG.items()),
    InC(
        "the branch of IPv6 looks at the source",
        "cidr6",
        ": pc_column6_eg(&flow->tuple.daddr);",
        ": pc_column6_eg(&flow->tuple.saddr);",
    ),
    InC(
        "an address is classified in the order of the wire",
        "cidr4",
        "__u32 a = bpf_ntohl(address);",
        "__u32 a = address;",
    ),
    InC("the row is the peer's", "cidr4", "own->egress_row, column)", "column, own->egress_row)"),
    *(
        InHeader(name, "cidr4", header, right, wrong)
        for name, (header, right, wrong) in IN_HEADERS.items()
    ),
    *(
        InHeader(claim, "cidr4", "policy_run.h", right, wrong)
        for claim, (right, wrong) in RESETS.items()
    ),
    InHeader(
        "the port is in the order of the wire",
        "ports-100",
        "service_key.h",
        "bpf_ntohs(flow->tuple.dport)",
        "flow->tuple.dport",
    ),
    InHeader(
        "the source's port in place of the destination's",
        "ports-100",
        "service_key.h",
        "bpf_ntohs(flow->tuple.dport)",
        "bpf_ntohs(flow->tuple.sport)",
    ),
    InHeader(
        "UDP is TCP",
        "mixed-10",
        "service_key.h",
        "return PC_SERVICE_UDP << 16 | port;",
        "return PC_SERVICE_TCP << 16 | port;",
    ),
    InHeader(
        "a port one too high",
        "ports-100",
        "policy_words.h",
        "volatile __u64 seen = (__u64)key + 1;",
        "volatile __u64 seen = (__u64)key + 2;",
    ),
    InHeader(
        "another child",
        "ports-100",
        "policy_words.h",
        "return node->child[child & 7];",
        "return node->child[(child + 1) & 7];",
    ),
    InHeader(
        "keys are compared with their sign",
        "mixed-10",
        "policy_words.h",
        "child += (node->lowest[i] - above) >> 63;",
        "child += (__s32)node->lowest[i] < (__s32)above;",
    ),
    InHeader(
        "a round of the search is left out", "ports-100", "policy_words.h", "PC_ROUND(0);", ""
    ),
    InHeader(
        "a denial by egress is forgotten",
        "counters-none",
        "policy_run.h",
        "if (decision.allowed && flow->dst.ifindex)",
        "if (flow->dst.ifindex)",
    ),
    InHeader(
        "ingress is not asked",
        "ports-100",
        "policy_run.h",
        "if (decision.allowed && flow->dst.ifindex)",
        "if (decision.allowed && flow->dst.ifindex && flow->src.id)",
    ),
    InHeader(
        "what is denied passes",
        "cidr4",
        "policy_run.h",
        "pc_ct_drop_pre_nat(flow);\n\t\treturn PC_DROP_POLICY;",
        "pc_ct_drop_pre_nat(flow);\n\t\treturn PC_PASS;",
    ),
    InHeader(
        "a connection decided again is of another epoch",
        "cidr4",
        "ct_decided.h",
        "ct->ingress_rule = ingress_rule;\n\tct->epoch = flow->epoch;",
        "ct->ingress_rule = ingress_rule;\n\tct->epoch = flow->epoch + 1;",
    ),
    InHeader(
        "no word denies",
        "cidr4",
        "policy_run.h",
        "allowed = false;\n\t}\n\treturn",
        "allowed = true;\n\t}\n\treturn",
    ),
    InHeader(
        "a connection is stored as another flow's",
        "cidr4",
        "ct_key.h",
        ".hi_port = back ? t->sport : t->dport,",
        ".hi_port = back ? t->sport : t->sport,",
        count=2,
    ),
    InHeader(
        "members of the flow change places",
        "cidr4",
        "flow.h",
        "__be16 sport, dport;",
        "__be16 dport, sport;",
    ),
    InObject("an address is compared with its sign", "cidr4", _jump(_JGT_K, _JSGT_K)),
    InObject("a comparison is turned round", "cidr4", _jump(_JEQ_K, _JNE_K)),
    InObject("a call is left out", "cidr4", _no_class),
    InObject(
        "LLVM: an address is compared with its sign", "cidr4", _jump(_JLT_K, _JSLT_K), Backend.LLVM
    ),
    InObject("LLVM: a comparison is turned round", "cidr4", _jump(_JEQ_K, _JNE_K), Backend.LLVM),
    InObject("LLVM: a call is left out", "cidr4", _no_class, Backend.LLVM),
)
"""Wrong programs."""


def _prefix(change: int) -> Damage:
    """The first long prefix of a trie for IPv4 has another length."""

    def damage(data: bytearray) -> None:
        entries = range(0, len(data), _TRIE_ENTRY)
        at = next(at for at in entries if 16 <= data[at] <= 31)
        data[at] += change

    return damage


_TRIE_ENTRY = 12  # length, address, column


def _of_trie(name: str, damage: Damage) -> InSeed:
    return InSeed(name, "cidrs-100", "pc_cidr4_in", damage, AddressLayout.LPM)


SEED_FAULTS: tuple[InSeed, ...] = (
    *(InSeed(f"seeds: {name}", case, of, damage) for name, (case, of, damage) in FAULTS.items()),
    InSeed(
        "a named port leads nowhere",
        "named-ports-egress",
        "pc_cells_eg",
        first(lambda value: value > 0 and not value >> 31, lambda _: 0),
    ),
    InSeed(
        "a denial is missing",
        "cidr6",
        "pc_cells_eg",
        first(lambda value: value >> 30 == 2, lambda value: value | ALLOW),
    ),
    InSeed(
        "a network begins elsewhere",
        "counters-none",
        "pc_root4_in",
        first(lambda value: value >> 31 == 1, lambda value: value ^ 1),
    ),
    _of_trie("a prefix is a bit longer", _prefix(1)),
    _of_trie("a prefix is a bit shorter", _prefix(-1)),
    _of_trie("a prefix has another column", word(2, lambda value: value + 1)),
    _of_trie("a prefix is missing", lambda data: data.__delitem__(slice(0, _TRIE_ENTRY))),
)
"""Wrong contents of maps."""

REFUTED_ALONE: Mapping[str, str] = {
    "the packet is marked": "no map shows a mark",
    **dict.fromkeys(RESETS, "the verdict and the maps are the same"),
    "a denied entry goes on": "two looks have to find one entry, and the model has two",
    "a denied entry is decided": "two looks have to find one entry, and the model has two",
    "seeds: a bucket has another row": "nobody looks there",
    "seeds: a bucket that nobody filled": "nobody looks there",
}
"""Faults that are refuted, and not shown by a packet: why not."""

UNMODELLED: Mapping[str, str] = {
    "the tables are changed": "pc_nodes is changed by a helper",
}
"""Faults that are not found: the program does what has no model, so that no lemma speaks of it."""

ALL: Mapping[str, CodeFault | InSeed] = {
    fault.name: fault for fault in (*CODE_FAULTS, *SEED_FAULTS)
}
assert len(ALL) == len(CODE_FAULTS) + len(SEED_FAULTS), "two faults have the same name"


@dataclass(frozen=True)
class Source:
    """A case, and how our compiler is told to compile it: what is right is made from it."""

    case: str
    backend: Backend = Backend.C
    addresses: AddressLayout | None = None

    def __str__(self) -> str:
        told = "" if self.addresses is None else f" by {self.addresses.value}"
        return f"{self.case}{told} ({self.backend.value})"

    def made(self) -> Made:
        """What our compiler makes of it."""
        return made(self.case, self.backend, self.addresses)


def source_of(fault: CodeFault | InSeed) -> Source:
    """What a fault is put into."""
    match fault:
        case InObject():
            return Source(fault.case, fault.backend)
        case InSeed():
            return Source(fault.case, addresses=fault.addresses)
    return Source(fault.case)


SOURCES: tuple[Source, ...] = tuple(dict.fromkeys(source_of(fault) for fault in ALL.values()))
"""Each once."""
