# SPDX-License-Identifier: Apache-2.0
"""Changed policies: parts dropped, doubled, swapped; values replaced by others of their kind.

A change is a number that encodes the kind, the place and the new value. It is decoded on the objects as
the earlier changes left them, so removing one change, as shrinking does, leaves the others valid.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from policyc.compiler.fuzz.strategies.draw import Object

Path = tuple[str | int, ...]
Change = tuple[int, int]
"""The place, and the number of the other value."""
_FIXED = frozenset({"apiVersion", "kind"})
_OPERATORS = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


@dataclass(frozen=True)
class _Site:
    """A place that can be changed, and its changes, each of which gives the new value or list."""

    path: Path
    ways: tuple[Callable[[Any], Any], ...]


def mutated(objects: Sequence[Object], changes: Sequence[Change]) -> list[Object]:
    """The objects with the changes made, one after the other."""
    found: Any = list(objects)
    for where, what in changes:
        sites = list(_sites(found, (), _values(found)))
        if sites:
            site = sites[where % len(sites)]
            found = _changed(found, site.path, site.ways[what % len(site.ways)])
    return [each for each in found if isinstance(each, dict)]


def _sites(value: Any, path: Path, known: dict[str, list[Any]]) -> Iterator[_Site]:
    match value:
        case dict():
            for key, item in value.items():
                if key in _FIXED or (key == "name" and path[-1:] == ("metadata",)):
                    continue
                if len(path) > 1:
                    yield _Site(path, (_without_key(key),))
                yield from _sites(item, (*path, key), known)
        case list():
            for at in range(len(value)):
                yield _Site(path, (_dropped(at), _doubled(at), _swapped(at)))
            for at, item in enumerate(value):
                yield from _sites(item, (*path, at), known)
        case bool():
            yield _Site(path, (lambda found: not found,))
        case int():
            others = tuple(_instead(each) for each in known[_name(path)] if each != value)
            yield _Site(path, (lambda n: n + 1, lambda n: n - 1, *others))
        case str():
            ways = tuple(_of_text(value, known[_name(path)]))
            if ways:
                yield _Site(path, ways)


def _of_text(text: str, others: list[Any]) -> Iterator[Callable[[Any], Any]]:
    """A CIDR wider and narrower, an operator negated, lines as items; another of its kind."""
    if "\n" in text:
        for at in range(len(text.splitlines())):
            yield _by_line(_dropped(at))
            yield _by_line(_doubled(at))
            yield _by_line(_swapped(at))
    if text in _OPERATORS:
        yield _instead(_OPERATORS[text])
    if "/" in text:
        yield from map(_instead, _near(text))
    for other in others:
        if other != text:
            yield _instead(other)


def _near(text: str) -> Iterator[str]:
    try:
        network = ip_network(text)
    except ValueError:
        return
    if network.prefixlen:
        yield str(network.supernet())
    if network.prefixlen < network.max_prefixlen:
        yield from map(str, network.subnets())


def _values(objects: Sequence[Object]) -> dict[str, list[Any]]:
    """The values under each field's name, each once, in order."""
    found: dict[str, dict[Any, None]] = defaultdict(dict)

    def walk(value: Any, path: Path) -> None:
        match value:
            case dict():
                for key, item in value.items():
                    walk(item, (*path, key))
            case list():
                for at, item in enumerate(value):
                    walk(item, (*path, at))
            case str() | int():
                found[_name(path)][value] = None

    walk(list(objects), ())
    return defaultdict(list, {name: list(values) for name, values in found.items()})


def _name(path: Path) -> str:
    """The name of the field of a value; for an item that of its list."""
    return next((str(step) for step in reversed(path) if isinstance(step, str)), "")


def _changed(value: Any, path: Path, way: Callable[[Any], Any]) -> Any:
    if not path:
        return way(value)
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {k: _changed(v, rest, way) if k == step else v for k, v in value.items()}
    return [_changed(item, rest, way) if at == step else item for at, item in enumerate(value)]


def _instead(other: Any) -> Callable[[Any], Any]:
    return lambda _: other


def _without_key(key: str) -> Callable[[Any], Any]:
    return lambda found: {k: v for k, v in found.items() if k != key}


def _dropped(at: int) -> Callable[[Any], Any]:
    return lambda found: [*found[:at], *found[at + 1 :]]


def _doubled(at: int) -> Callable[[Any], Any]:
    return lambda found: [*found[: at + 1], *found[at:]]


def _swapped(at: int) -> Callable[[Any], Any]:
    return lambda found: [*found[:at], *found[at : at + 2][::-1], *found[at + 2 :]]


def _by_line(way: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda text: "".join(way(text.splitlines(keepends=True)))
