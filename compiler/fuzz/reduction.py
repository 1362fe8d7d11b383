# SPDX-License-Identifier: Apache-2.0
"""A failing example reduced, part by part, as long as the same stage gives a wrong answer.

Hypothesis has shrunk its draws. This module removes whole objects, list items and fields, which
hypothesis does not know.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from policyc.compiler.fuzz.strategies.draw import (
    Draw,
    Object,
)

Fails = Callable[[Draw], bool]
_KEPT = frozenset({"apiVersion", "kind", "metadata", "name", "namespace"})
Path = tuple[str | int, ...]


def reduced(draw: Draw, fails: Fails) -> Draw:
    """The smallest draw that this method finds; `fails` says whether a draw still fails."""
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in _without_knobs(draw):
            if fails(smaller):
                draw, is_smaller = smaller, True
        for number in reversed(range(len(draw.objects))):
            smaller = replace(draw, objects=draw.objects[:number] + draw.objects[number + 1 :])
            if smaller.objects and fails(smaller):
                draw, is_smaller = smaller, True
        for number in range(len(draw.objects)):
            draw, was_smaller = _smaller_object(draw, number, fails)
            is_smaller |= was_smaller
    return draw


def _without_knobs(draw: Draw) -> Iterator[Draw]:
    """Draws with one option reset: pods given to the compiler, its own layouts, or no salt."""
    if draw.later:
        yield replace(draw, later=frozenset())
    for name in sorted(draw.later):
        yield replace(draw, later=draw.later - {name})
    if draw.layout != "measured":
        yield replace(draw, layout="measured")
    if draw.salt:
        yield replace(draw, salt=0)


def _smaller_object(draw: Draw, number: int, fails: Fails) -> tuple[Draw, bool]:
    """Remove one part after the other, larger ones first; parts of removed parts are not tried."""
    is_smaller = False
    tried: set[Path] = set()
    while True:
        path = next((p for p in _parts(draw.objects[number]) if p not in tried), None)
        if path is None:
            return draw, is_smaller
        tried.add(path)
        smaller = _without(draw, number, path)
        if fails(smaller):
            draw, is_smaller = smaller, True
            tried = {each for each in tried if each[: len(path) - 1] != path[:-1]}


def _parts(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every part that may be removed: list items, fields except an object's identity, lines.

    The path to a line of a text ends in its number, like that to an item of a list.
    """
    match value:
        case dict():
            yield from ((*path, key) for key in value if key not in _KEPT)
            for key, item in value.items():
                yield from _parts(item, (*path, key))
        case list():
            yield from ((*path, at) for at in reversed(range(len(value))))
            for at, item in enumerate(value):
                yield from _parts(item, (*path, at))
        case str() if "\n" in value:
            yield from ((*path, at) for at in reversed(range(len(value.splitlines()))))


def _without(draw: Draw, number: int, path: Path) -> Draw:
    objects: list[Object] = list(draw.objects)
    objects[number] = _left(objects[number], path)
    return replace(draw, objects=tuple(objects))


def _left(value: Any, path: Path) -> Any:
    """The value without the part at the path."""
    step, rest = path[0], path[1:]
    match value:
        case dict() if rest:
            return {key: _left(item, rest) if key == step else item for key, item in value.items()}
        case dict():
            return {key: item for key, item in value.items() if key != step}
        case list():
            found = list(value)
            assert isinstance(step, int)
            found[step : step + 1] = [_left(found[step], rest)] if rest else []
            return found
        case _:
            lines = str(value).splitlines(keepends=True)
            return "".join(line for at, line in enumerate(lines) if at != step)
