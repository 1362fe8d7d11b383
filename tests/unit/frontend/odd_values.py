# SPDX-License-Identifier: Apache-2.0
"""Values of every kind where none is expected."""

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 80, 2**40, 1.5, float("nan")),
    *("", "x", "10.0.0.0/8", "::/0", "1.2.3.4", "Ingress", "\u0000"),
    *([], {}, [None], {"a": None}, [[]], {"x": {"y": []}}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def mutated(objects: list[Any], rng: random.Random) -> list[Any]:
    objects = copy.deepcopy(objects)
    *path, last = rng.choice(list(places(objects)))
    at: Any = objects
    for key in path:
        at = at[key]
    if rng.random() < 0.7:
        at[last] = rng.choice(VALUES)
    else:
        del at[last]
    return objects
