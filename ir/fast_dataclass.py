# SPDX-License-Identifier: Apache-2.0
"""A replacement for the standard library's `dataclass` that creates classes faster.

A short run spends most of its time on loading modules, and most of that on creating dataclasses, few of
which it uses. Here the methods that depend on the fields are compiled only after they were called often,
the fields are described on request (`dataclasses.fields`), and all else is shared. The classes behave as
the standard library's do, except for `inspect.signature` of a class that was seldom instantiated. A
class that uses more than fields with defaults is left to the standard library.
"""

import dataclasses
import sys
from abc import update_abstractmethods
from dataclasses import MISSING, Field
from functools import cache, partial
from operator import attrgetter
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ClassVar

__all__ = ["dataclass"]

_KNOWN = sys.version_info < (3, 14)
"""Whether this Python is known. From 3.14 on, a function computes the annotations of a class."""

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False, **more):
        """The decorator, with the parameters of the standard library's."""
        if more or not _KNOWN:
            made = dataclasses.dataclass(eq=eq, frozen=frozen, slots=slots, **more)
        else:
            made = partial(_made, eq=eq, frozen=frozen, slots=slots)
        return made if cls is None else made(cls)


_ENOUGH = 100
"""The budget of a method before it is compiled: so many calls, fewer if they take long."""
_SLOW = 12
"""The calls of a compiled `__init__` that take as long as one call that resolves names and defaults."""


class _Shape:
    """The fields of a class by name: their types, and their defaults or the results of `field`.

    It stands in for `__dataclass_fields__`, and replaces itself there by what the standard library
    computes.
    """

    __slots__ = ("cls", "given", "is_frozen", "readers", "spent", "types")

    def __init__(self, cls: Any, types: dict[str, Any], *, is_frozen: bool) -> None:
        self.cls, self.types, self.is_frozen = cls, types, is_frozen
        self.spent = {"__init__": 0, "__eq__": 0, "__hash__": 0}
        self.readers: dict[str, Any] = {}
        self.given: dict[str, Any] = {name: getattr(cls, name, MISSING) for name in types}

    def __get__(self, _instance: object, _owner: type) -> Any:
        body = {name: value for name, value in self.given.items() if value is not MISSING}
        body |= {"__annotations__": self.types, "__doc__": "Or its signature is put in words."}
        plain: Any = type(self.cls.__name__, (), body)
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(plain)
        found = made.__dataclass_fields__
        self.cls.__dataclass_fields__ = found
        return found

    def reader(self, method: str) -> Any:
        """A getter of the fields that `__eq__` or `__hash__` uses; None if it must be compiled."""
        self.spent[method] += 1
        if self.spent[method] > _ENOUGH:
            return None
        if method not in self.readers:
            names = _compared(self, method)
            self.readers[method] = attrgetter(*names) if len(names) > 1 else None
        return self.readers[method]

    @property
    def is_plain(self) -> bool:
        """Whether a class uses only fields with defaults."""
        own = vars(self.cls)
        for base in self.cls.__mro__[1:-1]:
            if "__dataclass_params__" in vars(base) or vars(base).get("__slots__"):
                return False
        if not _MADE.isdisjoint(own) or "__slots__" in own or own.get("__hash__", 1) is None:
            return False
        has_default = False
        for name, kind in self.types.items():
            value = self.given[name]
            if not _is_type_of_field(kind):
                return False
            if type(value).__hash__ is None:  # one list for all of them
                return False
            if isinstance(value, Field) and not _is_plain_field(value):
                return False
            if has_default and not _has_default(value):
                return False
            has_default = _has_default(value)
        return all(type(own[name]) is not Field for name in own.keys() - self.types.keys())


_NO_FIELDS: tuple[Any, ...] = (ClassVar, dataclasses.InitVar, dataclasses.KW_ONLY)


def _is_type_of_field(kind: Any) -> bool:
    """Whether an annotation is that of a plain field."""
    if type(kind) is type:  # most are
        return kind is not dataclasses.InitVar
    if isinstance(kind, str):
        return not any(name in kind for name in ("ClassVar", "InitVar", "KW_ONLY"))
    if isinstance(kind, dataclasses.InitVar) or getattr(kind, "__origin__", None) is ClassVar:
        return False
    return not any(kind is other for other in _NO_FIELDS)


def _is_plain_field(each: "Field[Any]") -> bool:
    return each.init and each.kw_only is MISSING and type(each.default).__hash__ is not None


def _has_default(value: Any) -> bool:
    if isinstance(value, Field):
        return value.default is not MISSING or value.default_factory is not MISSING
    return value is not MISSING


def _made(cls: type, *, eq: bool, frozen: bool, slots: bool) -> Any:
    shape = _Shape(cls, vars(cls).get("__annotations__", {}), is_frozen=frozen)
    if not shape.is_plain:
        return dataclasses.dataclass(eq=eq, frozen=frozen, slots=slots)(cls)
    members = {
        **_SHARED,
        **(_FROZEN if frozen else {}),
        **(_FROZEN_SLOTS if frozen and slots else {}),
        **_methods(shape, is_compared=eq),
        "__dataclass_fields__": shape,
        "__dataclass_params__": _Params(eq, frozen),
        "__match_args__": vars(cls).get("__match_args__", tuple(shape.types)),
    }
    members |= {name: vars(cls)[name] for name in _STAYS if name in vars(cls)}
    made = _with_slots(shape, members) if slots else _without(shape, members)
    shape.cls = made
    return update_abstractmethods(made)


def _with_slots(shape: _Shape, members: dict[str, Any]) -> Any:
    """The class created a second time: a class gets slots only at its creation."""
    cls = shape.cls
    body = {name: value for name, value in vars(cls).items() if name not in shape.types}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body |= members | {"__slots__": tuple(shape.types)}
    made = type(cls)(cls.__name__, cls.__bases__, body)
    made.__qualname__ = cls.__qualname__
    return made


def _without(shape: _Shape, members: dict[str, Any]) -> Any:
    for name, value in members.items():
        setattr(shape.cls, name, value)
    for name, value in shape.given.items():
        if isinstance(value, Field):
            if value.default is MISSING:
                delattr(shape.cls, name)
            else:
                setattr(shape.cls, name, value.default)
    return shape.cls


def _methods(shape: _Shape, *, is_compared: bool) -> dict[str, Any]:
    """`__init__`, `__eq__` and `__hash__`, which are compiled after some calls.

    Until then each call takes longer, which costs less in total than compiling. A class with comparison
    has a hash only if it is frozen.
    """

    def init(self: Any, *values: object, **named: object) -> None:
        found: Any = None
        if shape.spent["__init__"] < _ENOUGH:
            is_each = not named and len(values) == len(shape.given)
            shape.spent["__init__"] += 1 if is_each else _SLOW
            found = (
                zip(shape.given, values, strict=True) if is_each else _values(shape, values, named)
            )
        if found is None:
            _compiled(shape, "__init__")(self, *values, **named)
            return
        for name, value in found:
            object.__setattr__(self, name, value)
        if hasattr(shape.cls, "__post_init__"):
            self.__post_init__()

    def equal(self: object, other: object) -> Any:
        if (read := shape.reader("__eq__")) is None:
            return _compiled(shape, "__eq__")(self, other)
        return read(self) == read(other) if other.__class__ is self.__class__ else NotImplemented

    def digest(self: object) -> Any:
        if (read := shape.reader("__hash__")) is None:
            return _compiled(shape, "__hash__")(self)
        return hash(read(self))

    init.__annotations__ = {**shape.types, "return": None}
    found: dict[str, Any] = {"__init__": init}
    if is_compared:
        found |= {"__eq__": equal, "__hash__": digest} if shape.is_frozen else {"__eq__": equal}
    for name, method in found.items():
        method.__name__, method.__qualname__ = name, f"{shape.cls.__qualname__}.{name}"
    return {"__hash__": None, **found} if is_compared else found


def _values(shape: _Shape, values: tuple[object, ...], named: dict[str, Any]) -> Any:
    """The value of each field; None if the call is wrong: then the compiled method reports the error."""
    found: dict[str, Any] = dict(zip(shape.given, values, strict=False)) | named
    if len(found) < len(values) + len(named) or not found.keys() <= shape.given.keys():
        return None
    for name, value in shape.given.items():
        if name not in found:
            is_field = isinstance(value, Field)
            default = value.default if is_field else value
            if default is MISSING and is_field and value.default_factory is not MISSING:
                default = value.default_factory()
            if default is MISSING:
                return None
            found[name] = default
    return ((name, found[name]) for name in shape.given)


def _compiled(shape: _Shape, name: str) -> Any:
    """Compile one of these methods and put it in place."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    lines = _init(shape, known) if name == "__init__" else _TEXTS[name](_compared(shape, name))
    text = "\n".join([f"def make({', '.join(known)}):", *lines, f" return {name}"])
    space: dict[str, Any] = {}
    exec(text, {"__name__": shape.cls.__module__}, space)  # as the standard library does
    method: Any = space["make"](**known)
    method.__qualname__ = f"{shape.cls.__qualname__}.{name}"
    if name == "__init__":
        method.__annotations__ = {**shape.types, "return": None}
    setattr(shape.cls, name, method)
    return method


def _init(shape: _Shape, known: dict[str, Any]) -> list[str]:
    """The lines of `__init__`; the names that they use are added to `known`."""
    parameters, body = ["self"], []
    for name, value in shape.given.items():
        default: Any = value
        factory: Any = MISSING
        if isinstance(value, Field):
            default, factory = value.default, value.default_factory
        if default is not MISSING:
            known[f"_default_{name}"] = default
            parameters.append(f"{name}=_default_{name}")
        elif factory is not MISSING:
            known[f"_make_{name}"] = factory
            parameters.append(f"{name}=_missing")
            body.append(f"  if {name} is _missing: {name} = _make_{name}()")
        else:
            parameters.append(name)
        slot = vars(shape.cls).get(name)
        if not shape.is_frozen:
            body.append(f"  self.{name} = {name}")
        elif isinstance(slot, MemberDescriptorType):
            known[f"_set_{name}"] = slot.__set__
            body.append(f"  _set_{name}(self, {name})")
        else:
            body.append(f"  _set(self, {name!r}, {name})")
    if hasattr(shape.cls, "__post_init__"):
        body.append("  self.__post_init__()")
    return [f" def __init__({', '.join(parameters)}):", *(body or ["  pass"])]


def _compared(shape: _Shape, method: str) -> list[str]:
    """The fields that `__eq__` or `__hash__` uses."""
    found = []
    for name, value in shape.given.items():
        is_meant = True
        if isinstance(value, Field):
            is_hash = method == "__hash__" and value.hash is not None
            is_meant = bool(value.hash) if is_hash else value.compare
        if is_meant:
            found.append(name)
    return found


def _tuple(side: str, names: list[str]) -> str:
    return f"({''.join(f'{side}.{name}, ' for name in names)})"


_TEXTS = {
    "__eq__": lambda names: [
        " def __eq__(self, other):",
        "  if other.__class__ is self.__class__:",
        f"   return {_tuple('self', names)} == {_tuple('other', names)}",
        "  return NotImplemented",
    ],
    "__hash__": lambda names: [
        " def __hash__(self):",
        f"  return hash({_tuple('self', names)})",
    ],
}
"""The lines of methods over the fields that are compared."""


def _repr(self: Any) -> str:
    fields = (each for each in dataclasses.fields(self) if each.repr)
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _replace(self: Any, /, **changes: Any) -> Any:
    return dataclasses.replace(self, **changes)


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED = {"__repr__": _repr, "__replace__": _replace}
_FROZEN = {"__setattr__": _setattr, "__delattr__": _delattr}
_FROZEN_SLOTS = {"__getstate__": _getstate, "__setstate__": _setstate}
_STAYS = ("__hash__", "__repr__")
"""The methods that a class may define itself."""
_MADE = frozenset({*_SHARED, *_FROZEN, *_FROZEN_SLOTS, "__init__", "__eq__"}) - {*_STAYS}
"""The methods that are generated; a class that defines one of them is left to the standard library."""


class _Params:
    """The standard library's description of such classes, computed on request."""

    __slots__ = ("eq", "frozen")

    def __init__(self, eq: bool, frozen: bool) -> None:
        self.eq, self.frozen = eq, frozen

    def __get__(self, _instance: object, _owner: type) -> Any:
        return _params(self.eq, self.frozen)


@cache
def _params(eq: bool, frozen: bool) -> Any:
    """The standard library's description of such classes."""
    model: Any = type("Model", (), {"__doc__": "Without fields."})
    return vars(dataclasses.dataclass(eq=eq, frozen=frozen)(model))["__dataclass_params__"]
