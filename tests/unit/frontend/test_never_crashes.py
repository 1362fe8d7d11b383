# SPDX-License-Identifier: Apache-2.0
"""Whatever the input: it is read, or it is an InputError with findings. Never another exception."""

import copy
import io
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from policyc.compiler.frontend import StreamSource, read_cluster, read_policies, read_scenario
from policyc.ir.errors import InputError
from tests.golden.verdict_cases import load_cases

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 80, 2**40, 1.5, float("nan")),
    *("", "x", "10.0.0.0/8", "::/0", "1.2.3.4", "Ingress", "\u0000"),
    *([], {}, [None], {"a": None}, [[]], {"x": {"y": []}}),
)
SPLICES = (
    b"&a ",
    b"*a ",
    b"!!x ",
    b"<<: ",
    b"? ",
    b"- ",
    b"\n---\n",
    b'"',
    b"\\u",
    b"[[[[",
    b"\xff",
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


@pytest.mark.parametrize("seed", range(8))
def test_objects_with_a_wrong_value_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    for case in load_cases():
        try:
            read_scenario("x", mutated(list(case.objects), rng))
        except InputError as wrong:
            assert any(finding.is_error for finding in wrong.findings)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_are_read_or_refused(seed: int) -> None:
    rng = random.Random(seed)
    for case in load_cases():
        items = list(case.objects)
        as_list = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        for text in (yaml.safe_dump_all(items), as_list):
            data = bytearray(text.encode())
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(data))
                data[at : at + rng.randint(0, 8)] = rng.choice((b"", *SPLICES))
            for read in (read_policies, read_cluster):
                try:
                    read([StreamSource(io.BytesIO(bytes(data)))])
                except InputError as wrong:
                    assert any(finding.is_error for finding in wrong.findings)
