# SPDX-License-Identifier: Apache-2.0
"""Our `dataclass` makes what the standard library's makes."""

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from policyc.ir import (
    atoms,
    decision,
    fast_dataclass,
    policy,
    selectors,
    universe,
)

T = TypeVar("T")
Decorator = Callable[..., Any]
MADE_BY = [fast_dataclass.dataclass, dataclasses.dataclass]
EMPTY: list[int] = []


@fast_dataclass.dataclass(frozen=True, slots=True)
class Ours:
    """With a default, a factory, and a field that is not compared."""

    a: int
    b: str = "x"
    c: list[int] = field(default_factory=list, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """The same by the standard library."""

    a: int
    b: str = "x"
    c: list[int] = field(default_factory=list, compare=False)


def test_fast_dataclasses_behave_as_those_of_the_standard_library() -> None:
    for cls in (Ours, Theirs):
        one = cls(1)
        assert (one.a, one.b, one.c) == (1, "x", [])
        assert one.c is not cls(1).c
        assert one == cls(1, "x", [5])
        assert hash(one) == hash(cls(1, c=[5])) == hash((1, "x"))
        assert one != cls(2)
        assert one != (1, "x")
        assert dataclasses.replace(one, a=3) == cls(3)
        assert dataclasses.asdict(one) == {"a": 1, "b": "x", "c": []}
        assert pickle.loads(pickle.dumps(cls(1, "y", [2]))).c == [2]
        assert copy.deepcopy(one) == one
        assert not hasattr(one, "__dict__")
        match one:
            case cls(a, b, c):
                assert (a, b, c) == (1, "x", [])
    assert Ours.__slots__ == Theirs.__slots__
    assert Ours.__match_args__ == Theirs.__match_args__
    assert [f.name for f in dataclasses.fields(Ours)] == [
        f.name for f in dataclasses.fields(Theirs)
    ]
    assert repr(Ours(1, "'", [2])) == repr(Theirs(1, "'", [2])).replace("Theirs", "Ours")
    assert Ours.__init__.__annotations__ == Theirs.__init__.__annotations__


@pytest.mark.parametrize("made_by", MADE_BY)
def test_a_dataclass_without_slots_has_cached_properties(made_by: Decorator) -> None:
    @made_by(frozen=True)
    class Cached:
        a: int
        b: int = 3

        @functools.cached_property
        def c(self) -> int:
            return self.a + self.b

    one = Cached(1)
    assert one.c == 4
    assert one.__dict__ == {"a": 1, "b": 3, "c": 4}
    assert one == Cached(1)
    assert hash(one) == hash((1, 3))
    assert copy.copy(one) == one
    assert dataclasses.replace(one, a=2).c == 5
    assert Cached.b == 3
    with pytest.raises(FrozenInstanceError):
        one.a = 2


@pytest.mark.parametrize("cls", [Ours, Theirs])
def test_a_frozen_dataclass_refuses_changes(cls: Any) -> None:
    one = cls(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        one.a = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del one.a
    with pytest.raises((FrozenInstanceError, TypeError)):
        one.other = 2
    with pytest.raises(TypeError, match=rf"{cls.__name__}.__init__\(\) missing 1 required"):
        cls()
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        cls(1, d=2)


@pytest.mark.parametrize("made_by", MADE_BY)
def test_methods_of_the_class_are_kept(made_by: Decorator) -> None:
    @made_by(frozen=True, slots=True)
    class Own(Generic[T]):
        a: T

        def __post_init__(self) -> None:
            if self.a == 0:
                raise ValueError("zero")

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    assert hash(Own(1)) == 7
    assert repr(Own(1)) == "own"
    assert Own(1) == Own(1)
    with pytest.raises(ValueError, match="zero"):
        Own(0)


@pytest.mark.parametrize("made_by", MADE_BY)
def test_other_parameters_and_fields(made_by: Decorator) -> None:
    @made_by
    class Plain:
        a: int

    @made_by(frozen=True, slots=True, order=True)
    class Ordered:
        a: int

    @made_by(frozen=True, slots=True)
    class Hidden:
        a: int
        b: int = field(default=1, repr=False)
        c: int = field(default=2, init=False)

    plain = Plain(1)
    plain.a = 2
    assert plain == Plain(2)
    assert Ordered(1) < Ordered(2)
    assert repr(Hidden(1)).endswith("Hidden(a=1, c=2)")
    assert Hidden(1) == Hidden(1, 1)

    @made_by(frozen=True, slots=True)
    class Below(Hidden):
        d: int = 4

    assert (Below(1).c, Below(1).d) == (2, 4)


def test_dataclasses_without_fields_are_equal() -> None:
    assert policy.AnyService() == policy.AnyService()
    assert hash(policy.AnyPeer()) == hash(policy.AnyPeer())
    assert pickle.loads(pickle.dumps(policy.AnyPeer())) == policy.AnyPeer()


@pytest.mark.parametrize("module", [atoms, decision, policy, selectors, universe])
def test_the_ir_uses_fast_dataclasses(module: Any) -> None:
    """Each as the standard library would say: fields, slots, frozen."""
    found = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and dataclasses.is_dataclass(each) and "__slots__" in vars(each)
    ]
    assert found
    for each in found:
        assert vars(each)["__dataclass_params__"].frozen
        assert vars(each)["__slots__"] == tuple(f.name for f in dataclasses.fields(each))
        assert vars(each)["__eq__"].__qualname__ == f"{each.__qualname__}.__eq__"


@pytest.mark.parametrize("made_by", MADE_BY)
def test_unfrozen_dataclasses_are_mutable_and_unhashable(made_by: Decorator) -> None:
    @made_by
    class Open:
        a: int
        b: list[int] = field(default_factory=list)

    one = Open(1)
    one.b.append(2)
    one.a = 3
    assert one == Open(3, [2])
    assert Open(3).b == []
    assert Open.__hash__ is None
    assert not vars(Open)["__dataclass_params__"].frozen
    assert dataclasses.replace(one, b=[]) == Open(3)
    assert copy.copy(one) == one

    @made_by(slots=True, eq=False)
    class Single:
        a: int

    assert Single(1) != Single(1)
    assert len({Single(1), Single(1)}) == 2
    assert not vars(Single)["__dataclass_params__"].eq
    assert not hasattr(Single(1), "__dict__")


@pytest.mark.parametrize("made_by", MADE_BY)
def test_fields_in_repr_equality_and_hash(made_by: Decorator) -> None:
    @made_by(frozen=True, slots=True)
    class Some:
        a: int
        b: dict[str, int] = field(default_factory=dict, hash=False)
        c: int = field(default=0, repr=False, compare=False)

    assert repr(Some(1, {}, 5)).endswith("Some(a=1, b={})")
    assert Some(1) == Some(1, c=7)
    assert Some(1, {"x": 1}) != Some(1)
    assert hash(Some(1, {"x": 1})) == hash(Some(1)) == hash((1,))


@pytest.mark.parametrize("made_by", MADE_BY)
def test_mistakes_are_found_when_the_class_is_made(made_by: Decorator) -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @made_by(frozen=True)
        class Shared:
            a: list[int] = EMPTY

    with pytest.raises(TypeError, match="non-default argument"):

        @made_by(frozen=True)
        class Late:
            a: int = 1
            b: int

    with pytest.raises(TypeError, match="no type annotation"):

        @made_by(frozen=True)
        class Untyped:
            a = field(default=1)


def test_class_variables_are_no_fields() -> None:
    @fast_dataclass.dataclass(frozen=True, slots=True)
    class Counted:
        most: ClassVar[int] = 3
        a: int

    assert [each.name for each in dataclasses.fields(Counted)] == ["a"]
    assert Counted(1).most == 3


@pytest.mark.parametrize("made_by", MADE_BY)
def test_the_tenth_is_made_as_the_first(made_by: Decorator) -> None:
    @made_by(frozen=True, slots=True)
    class Counted:
        a: int
        b: int = 2
        c: list[int] = field(default_factory=list)

        def __post_init__(self) -> None:
            if self.a > 9:
                raise ValueError("too large")

    for a in range(10):
        assert repr(Counted(a, c=[1])).endswith(f"Counted(a={a}, b=2, c=[1])")
        assert Counted(b=a, a=1) == Counted(1, a, [])
        for wrong in (lambda: Counted(1, a=1), lambda: Counted(1, 2, [], 4), lambda: Counted(b=1)):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(ValueError, match="too large"):
            Counted(10)


@pytest.mark.parametrize("made_by", MADE_BY)
def test_first_and_later_calls_are_equal(made_by: Decorator) -> None:
    """A method is compiled when it was called often."""

    @made_by(frozen=True, slots=True)
    class Pair:
        a: int
        b: str = "x"
        c: list[int] = field(default_factory=list, compare=False)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("below zero")

    for at in range(300):
        one, other = Pair(at, "x", [at]), Pair(a=at)
        assert (one.a, one.b, one.c, other.b, other.c) == (at, "x", [at], "x", [])
        assert hash(one) == hash(other) == hash((at, "x"))
        assert one == other
        assert one != Pair(at, "y")
        assert one.__eq__((at, "x")) is NotImplemented
        with pytest.raises(ValueError, match="below zero"):
            Pair(-1)
        with pytest.raises(TypeError, match=r"__init__\(\) takes from 2 to 4 positional arguments"):
            Pair(at, "x", [], 1)
