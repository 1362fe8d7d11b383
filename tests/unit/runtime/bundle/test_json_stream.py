# SPDX-License-Identifier: Apache-2.0
"""A stream of JSON values in pieces: cut anywhere it is the same, and the work is linear."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyc.runtime.bundle.json_stream import JsonStream
from policyc.runtime.errors import InputError
from tests.slices import one_in

PIECE = 1 << 16
SCALARS = st.none() | st.booleans() | st.text() | st.text(alphabet='"\\\n{}[]a')
VALUES = st.recursive(
    SCALARS | st.integers(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='"\\{]ab'), inner),
)
OBJECTS = st.dictionaries(st.text(max_size=3), VALUES) | st.lists(VALUES) | SCALARS


def read(text: bytes, size: int) -> list[Any]:
    stream = JsonStream(Path("s"))
    found = [
        value.raw
        for at in range(0, len(text), size)
        for value in stream.values(text[at : at + size])
    ]
    stream.end()
    return found


@given(
    st.lists(OBJECTS, max_size=4), st.integers(1, 40), st.booleans(), st.sampled_from(["\n", " "])
)
def test_values_are_the_same_however_the_text_is_cut(
    values: list[Any], size: int, ascii_only: bool, between: str
) -> None:
    text = between.join(json.dumps(each, ensure_ascii=ascii_only) for each in values)
    encoded = text.encode("utf-8", "surrogatepass") if ascii_only else text.encode()
    assert read(encoded, size) == values
    assert read(encoded, len(encoded) + 1) == values


def test_a_value_is_returned_with_its_last_chunk() -> None:
    stream = JsonStream(Path("s"))
    text = json.dumps({"a": ["x" * 100_000, {"b": '"}'}]}).encode()
    for at in range(0, len(text) - 1, 1000):
        assert list(stream.values(text[at : min(at + 1000, len(text) - 1)])) == []
    assert len(list(stream.values(text[-1:]))) == 1


def test_positions_are_those_in_the_whole_text() -> None:
    stream = JsonStream(Path("s"))
    list(stream.values(b'{"a":\n 1}\n\n  {"b":'))
    (second,) = stream.values(b" 2}\n ")
    assert second.where == "s:4:3: $"
    with pytest.raises(InputError, match="s:5:7: not JSON: Expecting value"):
        list(stream.values(b'{"c":nonsense'))
    cut = JsonStream(Path("s"))
    list(cut.values(b'\n{"c":'))
    with pytest.raises(InputError, match="s:2:6: not JSON: it ends in the middle of a value"):
        cut.end()


def test_invalid_json_is_found_before_its_end() -> None:
    stream = JsonStream(Path("s"))
    list(stream.values(b'{"a": ['))
    with pytest.raises(InputError, match="not JSON"):
        for _ in range(10):
            list(stream.values(b'1, nonsense, {"b": '))


def _seconds(n_items: int, item: str) -> float:
    """Of a List of so many objects, in pieces as a pipe gives them; the least of three."""
    text = ('{"items": [' + ", ".join([item] * n_items) + "]}").encode()
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        assert len(read(text, PIECE)) == 1
        best = min(best, time.process_time() - began)
    return best


SERVICE = json.dumps(
    {"metadata": {"name": "web"}, "spec": {"note": 'a\\"b', "ports": [{"port": 80}]}}
)


@pytest.mark.slow
@pytest.mark.parametrize("item", one_in(3, [SERVICE, json.dumps("x" * 100), json.dumps("\\" * 60)]))
def test_eight_times_the_text_is_about_eight_times_the_work(item: str) -> None:
    """It would be 64 times where each piece made all text before it be read again."""
    small, large = _seconds(5_000, item), _seconds(40_000, item)
    assert large < 24 * max(small, 0.001)
