# SPDX-License-Identifier: Apache-2.0
"""A kernel's answers to CO-RE relocations, from its own BTF, as libbpf finds them (relo_core.c).

Types match by name up to `___`. Members match by name, also through members without a name. If several
types of the kernel match, they must agree. Where libbpf would only guess, this raises `UnmodelledError`.
"""

from dataclasses import dataclass

from policyc.verifier.bytecode.btf import Btf, Kind, Member
from policyc.verifier.bytecode.core_relocations import CoreKind, CoreRelocation
from policyc.verifier.bytecode.errors import ObjectError, UnmodelledError
from policyc.verifier.bytecode.fields import numbers

_FLAVOUR = "___"
_INT_SIGNED = 1
_STRUCTS = (Kind.STRUCT, Kind.UNION)


@dataclass(frozen=True, slots=True)
class _Field:
    """The position of a field in bits, and its type; `bits` is 0 if it is not a bit field."""

    at: int
    bits: int
    type: int


@dataclass(frozen=True)
class KernelLayouts:
    """The kernel's BTF, queried for an object with types of its own."""

    object: Btf
    kernel: Btf

    def answer(self, relocation: CoreRelocation) -> int | None:
        """The value that libbpf inserts; None if the kernel has no such field."""
        answers = {self._answer_of(relocation, each) for each in self._candidates(relocation)}
        if relocation.kind in (CoreKind.TYPE_EXISTS, CoreKind.FIELD_EXISTS):
            return int(1 in answers)
        if relocation.kind is not CoreKind.TYPE_SIZE:
            answers.discard(None)
        if len(answers) > 1:
            raise UnmodelledError(f"{relocation}: the kernel has {sorted(map(str, answers))}")
        return answers.pop() if answers else None

    def _candidates(self, relocation: CoreRelocation) -> tuple[int, ...]:
        kind = self.object.type(self.object.plain(relocation.type_id)).kind
        if kind not in _STRUCTS:
            raise UnmodelledError(f"{relocation} is about no struct")
        return self.kernel.all_named(kind, relocation.type.partition(_FLAVOUR)[0])

    def _answer_of(self, relocation: CoreRelocation, candidate: int) -> int | None:
        match relocation.kind:
            case CoreKind.TYPE_EXISTS:
                return 1
            case CoreKind.TYPE_SIZE:
                return self.kernel.size(candidate)
        field = self._field(relocation, candidate)
        if relocation.kind is CoreKind.FIELD_EXISTS:
            return int(field is not None)
        return None if field is None else self._of_field(relocation, field)

    def _of_field(self, relocation: CoreRelocation, field: _Field) -> int:
        at, size = self._word(field)
        bits = field.bits or 8 * size
        match relocation.kind:
            case CoreKind.FIELD_BYTE_OFFSET:
                return at
            case CoreKind.FIELD_BYTE_SIZE:
                return size
            case CoreKind.FIELD_SIGNED:
                return self._is_signed(field.type)
            case CoreKind.FIELD_LSHIFT_U64:
                return 64 - (field.at + bits - 8 * at)
            case CoreKind.FIELD_RSHIFT_U64:
                return 64 - bits
        raise UnmodelledError(f"{relocation} has no model")

    def _word(self, field: _Field) -> tuple[int, int]:
        """Offset and size of the bytes to load: for a bit field an aligned word that holds all of it."""
        size = self.kernel.size(field.type)
        if not field.bits:
            return field.at // 8, size
        while size <= 8:
            at = field.at // 8 // size * size
            if field.at + field.bits <= 8 * (at + size):
                return at, size
            size *= 2
        raise UnmodelledError(f"a bit field of {field.bits} bits at {field.at}")

    def _is_signed(self, ident: int) -> int:
        found = self.kernel.type(self.kernel.plain(ident))
        match found.kind:
            case Kind.INT:
                (encoded,) = numbers(found.extra, "I", 0, "a BTF integer")
                return int(bool(encoded >> 24 & _INT_SIGNED))
            case Kind.ENUM | Kind.ENUM64:
                return int(found.flag)
        raise UnmodelledError(f"whether a {found.kind.name} is signed")

    # --- from the object's members to the kernel's ---------------------------------------------

    def _field(self, relocation: CoreRelocation, candidate: int) -> _Field | None:
        """The field of the kernel that has the same names as the object's field."""
        first, *steps = (int(each) for each in relocation.access.split(":"))
        if first:
            raise UnmodelledError(f"{relocation}: an element behind the pointer")
        ours, theirs = relocation.type_id, _Field(0, 0, candidate)
        for step in steps:
            if self.object.type(self.object.plain(ours)).kind is Kind.ARRAY:
                ours, _ = self.object.array(ours)
                found = self._element(theirs, step, relocation)
            else:
                member = self._member(ours, step, relocation)
                ours = member.type
                found = self._named(theirs, member.name, set()) if member.name else theirs
            if found is None:
                return None
            theirs = found
        return theirs

    def _member(self, ident: int, step: int, relocation: CoreRelocation) -> Member:
        members = list(self.object.members(ident))
        if step >= len(members):
            raise ObjectError(f"{relocation} counts past the members of its type")
        return members[step]

    def _element(self, place: _Field, step: int, relocation: CoreRelocation) -> _Field | None:
        """An element of the kernel's array; None if it is shorter, or no array."""
        if self.kernel.type(self.kernel.plain(place.type)).kind is not Kind.ARRAY:
            return None
        element, count = self.kernel.array(place.type)
        if not count:
            raise UnmodelledError(f"{relocation}: an element of an array without a length")
        at = place.at + 8 * self.kernel.size(element) * step
        return _Field(at, 0, element) if step < count else None

    def _named(self, place: _Field, name: str, tried: set[int]) -> _Field | None:
        ident = self.kernel.plain(place.type)
        if self.kernel.type(ident).kind not in _STRUCTS:
            return None
        tried.add(ident)
        for member in self.kernel.members(ident):
            inner = _Field(place.at + member.bit_offset, member.bits, member.type)
            if member.name == name:
                return inner
            if not member.name and self.kernel.plain(member.type) not in tried:
                found = self._named(inner, name, tried)
                if found is not None:
                    return found
        return None
