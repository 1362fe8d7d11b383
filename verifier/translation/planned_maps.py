# SPDX-License-Identifier: Apache-2.0
"""Check that the maps of a policy program are those of the plan: their kinds and their sizes."""

from collections.abc import Iterator

from policyc.ir.plan import AddressLayout, CellLayout, LookupPlan
from policyc.ir.trees import NODE_BYTES
from policyc.verifier.bytecode.definitions import MapKind
from policyc.verifier.bytecode.program import Program
from policyc.verifier.translation.claims import Claim

WORD = 4
WIDE_CLASS = 8
"""The words of a class in the fixed part of LLVM's programs (policy_shell.bpf.c)."""
Shape = tuple[MapKind, int, int, int]
"""Kind, bytes of a key, bytes of a value, entries."""


def planned_maps(plan: LookupPlan) -> dict[str, Shape]:
    """The tables of the plan, by their names."""
    found: dict[str, Shape] = {}
    if plan.used_directions:
        words = 1 << (len(plan.class_fields) - 1).bit_length()
        found["pc_class"] = _array(WORD * words, plan.endpoints)
        found["pc_nodes"] = _array(NODE_BYTES, plan.node_room.capacity)
    for each in plan.used_directions:
        if each.cells is CellLayout.DENSE:
            found[f"pc_cells_{each.short}"] = _array(WORD, each.dense_words)
        else:
            found[f"pc_buckets_{each.short}"] = _array(NODE_BYTES, each.buckets)
            found[f"pc_usual_{each.short}"] = _array(WORD, each.rows.capacity)
        for family, address in each.addresses.items():
            if address.roots:
                found[f"pc_root{family}_{each.short}"] = _array(WORD, len(address.roots))
            if address.layout is AddressLayout.LPM:
                size = WORD + (4 if family == 4 else 16)
                shape = (MapKind.LPM_TRIE, size, WORD, address.entries)
                found[f"pc_cidr{family}_{each.short}"] = shape
    return found


def map_claims(program: Program, plan: LookupPlan) -> Iterator[Claim]:
    """A claim that fails for each table that is missing in the program, or is another one."""
    for name, shape in planned_maps(plan).items():
        there = program.maps.get(name)
        found = there and (there.kind, there.key_size, there.value_size, there.max_entries)
        if found != shape and not (name == "pc_class" and found == _wide(plan)):
            yield Claim(f"{name} is not the map of the plan", True)


def _wide(plan: LookupPlan) -> Shape:
    """Classes with room for every possible field, as in LLVM's programs."""
    return _array(WORD * WIDE_CLASS, plan.endpoints)


def _array(value_size: int, entries: int) -> Shape:
    return MapKind.ARRAY, WORD, value_size, entries
