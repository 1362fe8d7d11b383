# SPDX-License-Identifier: Apache-2.0
"""Check that the policy program and the hooks agree on shared structs, enumerators and maps.

The lemmas read the program through its own object's types. Those must be the types of the hooks, which
fill the flow and act on the reason. Otherwise an object whose types swap two members would be proved
with one layout and run with the other.
"""

from collections.abc import Iterable, Iterator

from policyc.verifier.bytecode.btf import Btf, Kind
from policyc.verifier.bytecode.definitions import MapDefinition
from policyc.verifier.bytecode.object import BpfObject
from policyc.verifier.translation.generation import LoadedMap

NEEDED = ((Kind.STRUCT, "pc_flow"), (Kind.STRUCT, "pc_ct"), (Kind.ENUM, "drop_reason"))
"""Types that the lemmas read."""
_COMPOUND = (Kind.STRUCT, Kind.UNION)
_NAMED = (*_COMPOUND, Kind.ENUM, Kind.ENUM64)
PINNED_BY_NAME = 1
_KIND_NAMES = {"array": "ARRAY", "lpm": "LPM_TRIE"}


def layout_faults(program: BpfObject, hooks: BpfObject) -> Iterator[str]:
    """Each type of the program that differs from the hooks' type; none if all agree."""
    for kind, name in NEEDED:
        if not program.btf.all_named(kind, name):
            yield f"the program has no {kind.name.lower()} {name}"
    for each in program.btf.types:
        if each.kind not in _NAMED or not each.name:
            continue
        theirs = hooks.btf.all_named(each.kind, each.name)
        ours = program.btf.all_named(each.kind, each.name)
        if len(ours) > 1:
            yield f"the program has several types {each.name}"
        elif theirs and not _same(program.btf, ours[0], hooks.btf, theirs[0], frozenset()):
            yield f"{each.kind.name.lower()} {each.name} is not that of the hooks"


def map_faults(
    program: BpfObject,
    hooks: BpfObject,
    own: Iterable[LoadedMap],
    others: Iterable[BpfObject] = (),
) -> Iterator[str]:
    """Each map that is neither shared as the hooks declare it, nor one of the generation's own.

    `others` are the node's objects whose maps a program with programs at sockets shares, too.
    """
    known = {each.name: each for each in own}
    theirs = {name: found for each in (*others, hooks) for name, found in each.maps.items()}
    for name, found in program.maps.items():
        shared = theirs.get(name)
        if name in known:
            if found.pinning or not _is_declared(found, known[name]):
                yield f"the map {name} is not as the manifest has it"
        elif shared is None or shared.pinning != PINNED_BY_NAME:
            yield f"the map {name} belongs to no object"
        elif _shape(found) != _shape(shared):
            yield f"the map {name} is not that of the hooks"
    for name in known.keys() - program.maps.keys():
        yield f"the program has no map {name}"


def _shape(found: MapDefinition) -> tuple[object, ...]:
    return (
        *(found.kind, found.key_size, found.value_size, found.max_entries),
        *(found.flags, found.pinning, found.initial),
    )


def _is_declared(found: MapDefinition, said: LoadedMap) -> bool:
    """Classes may have room for more than the plan needs (`planned_maps.py` says how much)."""
    kind = _KIND_NAMES.get(said.kind, said.kind.upper())
    has_room = found.value_size >= said.value_bytes or not said.value_bytes
    return found.kind.name == kind and found.max_entries == said.entries and has_room


def _same(one: Btf, a: int, other: Btf, b: int, within: frozenset[tuple[int, int]]) -> bool:
    """Whether two types are one, member by member. Pointers are: no code reads through them."""
    a, b = one.plain(a), other.plain(b)
    if (a, b) in within:
        return True
    found, wanted = one.type(a), other.type(b)
    if (found.kind, found.name) != (wanted.kind, wanted.name):
        return False
    if found.kind is Kind.PTR:
        return True
    if found.kind is Kind.ARRAY:
        (element, count), (their_element, their_count) = one.array(a), other.array(b)
        return count == their_count and _same(one, element, other, their_element, within)
    if found.size_or_type != wanted.size_or_type:
        return False
    if found.kind is Kind.ENUM:
        return one.enumerators(found.name) == other.enumerators(wanted.name)
    if found.kind not in _COMPOUND:
        return found.kind is Kind.INT and found.extra == wanted.extra
    members, theirs = list(one.members(a)), list(other.members(b))
    inside = within | {(a, b)}
    return len(members) == len(theirs) and all(
        (x.name, x.bit_offset, x.bits) == (y.name, y.bit_offset, y.bits)
        and _same(one, x.type, other, y.type, inside)
        for x, y in zip(members, theirs, strict=True)
    )
