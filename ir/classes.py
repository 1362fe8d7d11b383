# SPDX-License-Identifier: Apache-2.0
"""`dataclass` of the standard library, made in less time for frozen classes.

Before Python 3.13 each method of a dataclass is compiled by itself, six of them for a frozen one; that
is more than half of what it takes to load our modules, and a short run is mostly that. Here the three
that depend on the fields are compiled at once, and the others are shared. Everything else, and every
class that asks for more, is left to the standard library.
"""

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, **more):
        """The decorator, with the parameters of the standard library's."""
        if not frozen or more:
            made = dataclasses.dataclass(frozen=frozen, slots=slots, **more)
        else:
            made = partial(_frozen, slots=slots)
        return made if cls is None else made(cls)


_OWN = ("__init__", "__eq__", "__hash__")


def _frozen(cls: type, *, slots: bool) -> Any:
    if not _is_plain(cls):
        return dataclasses.dataclass(frozen=True, slots=slots)(cls)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(made)
    for name, method in zip(_OWN, _methods(made, fields), strict=True):
        method.__qualname__ = f"{made.__qualname__}.{name}"
        setattr(made, name, method)
    made.__init__.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    made.__dataclass_params__ = _PARAMS
    for name, method in (_SHARED | _OF_SLOTS if slots else _SHARED).items():
        setattr(made, name, method)
    return made


def _is_plain(cls: type) -> bool:
    """Whether a class asks for nothing but fields with defaults, some of them not compared."""
    if any(dataclasses.is_dataclass(base) for base in cls.__bases__):
        return False
    if {*_SHARED, *_OF_SLOTS, *_OWN} & cls.__dict__.keys():
        return False
    given = (each for each in cls.__dict__.values() if isinstance(each, dataclasses.Field))
    return all(
        each.init and each.repr and each.hash is None and each.kw_only is dataclasses.MISSING
        for each in given
    )


def _methods(made: type, fields: "tuple[dataclasses.Field[Any], ...]") -> tuple[Any, ...]:
    """`__init__`, `__eq__` and `__hash__`."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, body = [], []
    for each in fields:
        name = each.name
        if each.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = each.default
            parameters.append(f"{name}=_default_{name}")
        elif each.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = each.default_factory
            parameters.append(f"{name}=_missing")
            body.append(f"  if {name} is _missing: {name} = _make_{name}()")
        else:
            parameters.append(name)
        body.append(f"  _set(self, {name!r}, {name})")
    if hasattr(made, "__post_init__"):
        body.append("  self.__post_init__()")
    compared = [each.name for each in fields if each.compare]
    mine, theirs = (
        f"({''.join(f'{side}.{name}, ' for name in compared)})" for side in ("self", "other")
    )
    lines = [
        f"def make({', '.join(known)}):",
        f" def __init__({', '.join(('self', *parameters))}):",
        *(body or ["  pass"]),
        " def __eq__(self, other):",
        f"  if other.__class__ is self.__class__: return {mine} == {theirs}",
        "  return NotImplemented",
        f" def __hash__(self): return hash({mine})",
        " return __init__, __eq__, __hash__",
    ]
    space: dict[str, Any] = {}
    exec("\n".join(lines), {"__name__": made.__module__}, space)  # as the standard library does
    methods: tuple[Any, ...] = space["make"](**known)
    return methods


def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(_self: Any, name: str, _value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_SHARED = {"__repr__": _repr, "__setattr__": _setattr, "__delattr__": _delattr}
_OF_SLOTS = {"__getstate__": _getstate, "__setstate__": _setstate}


@dataclasses.dataclass(frozen=True, slots=True)
class _Model:
    """What the standard library says of such a class."""


_PARAMS: Any = vars(_Model)["__dataclass_params__"]
