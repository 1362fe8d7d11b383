# SPDX-License-Identifier: Apache-2.0
"""IR values as JSON and back: nothing is lost, and what is not ours is refused."""

import json
import random
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from policyc.compiler.driver.compile.policy_texts import TYPES
from policyc.ir.encoding import Decoder, DecodingError, Encoder
from policyc.ir.spans import Origin, Span
from tests.property.tiered_cases import tiered_case

ENCODER = Encoder(TYPES)
NUMBER = {name: number for number, (name, *_) in enumerate(ENCODER.table)}
NEAR = Span("a", 10, 5, 9)


def encoded(value: object, near: Span | None = None) -> dict[str, Any]:
    members: dict[str, Any] = json.loads("{" + ENCODER.members(value, near) + "}")
    return members


def copied(value: object, near: Span | None = None) -> Any:
    return Decoder(TYPES, ENCODER.table).value(**encoded(value, near), near=near)


def test_random_policy_sets_come_back() -> None:
    for seed in range(200):
        given = tiered_case(random.Random(seed)).policies
        back = copied(given)
        assert back == given, seed
        assert encoded(back) == encoded(given), seed  # == leaves places and names out


def test_numbers_and_booleans_differ() -> None:
    value = ((1,), (True,), (1.0,), ("1",), (None,), (-1e300,), (float("inf"),), (1 << 70,))
    assert repr(copied(value)) == repr(value)


def test_texts_come_back_and_are_written_as_they_are() -> None:
    value = ("", '"\\', "\n\t\0\x7f", "é", "𝄞", "\u2028")
    assert copied(value) == value
    assert '"é","𝄞","\u2028"' in ENCODER.members(value)


def test_mappings_and_addresses_come_back_in_one_order() -> None:
    one = {"b": ip_address("10.0.0.1"), "a": (ip_address("fd00::1"), None)}
    other = MappingProxyType(dict(reversed(one.items())))
    assert copied(one) == one
    assert ENCODER.members(one) == ENCODER.members(other)


def test_equal_values_are_written_once() -> None:
    entries = encoded(((1, 2), (2, 1), (1, 2), frozenset({3, 4}), frozenset({4, 3})))["entries"]
    assert len(entries) == 4


def test_only_known_types_are_written() -> None:
    with pytest.raises(TypeError, match="Path is not among"):
        ENCODER.members((Path(),))


SPANS = (
    Span("a", 12, 1, 4),
    Span("a", 3, 1),
    Span("a", 0, 0),
    Span("b", 12, 1),
    Span("", 12, 1),
    Span("<none>", 0, 0),
)


@pytest.mark.parametrize("near", [NEAR, *SPANS, None])
def test_spans_come_back_wherever_they_are_seen_from(near: Span | None) -> None:
    assert copied(SPANS, near) == SPANS


def test_lines_of_the_same_file_are_counted_from_there() -> None:
    span = NUMBER["Span"]
    assert encoded(SPANS, NEAR)["entries"][:4] == [
        [span, None, 2, 1, 4],
        [span, None, -7, 1, 0],
        [span, None, -10, 0, 0],
        [span, "b", 12, 1, 0],
    ]


def test_the_files_of_places_may_be_given_a_prefix() -> None:
    decoder = Decoder(TYPES, ENCODER.table, "bundle:x:")
    back = decoder.value(**encoded(SPANS, NEAR), near=NEAR)
    assert [str(span) for span in back] == [f"bundle:x:{span}" for span in SPANS]


WHOLE = encoded(Origin(Span("a", 1, 2), "spec"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": [[NUMBER["tuple"], [0]]]}, "no entry 0 before it"),
        ({"entries": [[NUMBER["tuple"], [-1]]]}, "no entry -1 before it"),
        ({"entries": [[NUMBER["tuple"], [1, 2]]]}, "entry 0"),
        ({"entries": [[NUMBER["Span"], "a"]]}, "1 parts instead of 4"),
        ({"entries": [[NUMBER["Span"], "a", 1, 2, 3, 4]]}, "5 parts instead of 4"),
        ({"entries": [[NUMBER["Span"], None, 1, 2, 3]]}, "entry 0"),
        ({"entries": [[NUMBER["Span"], 7, 1, 2, 3]]}, "entry 0"),
        ({"entries": [[NUMBER["Action"], "perhaps"]]}, "perhaps"),
        ({"entries": [[NUMBER["Action"]]]}, "0 parts instead of 1"),
        ({"entries": [[NUMBER["network"], "10.0.0.1/8"]]}, "host bits"),
        ({"entries": [[NUMBER["address"], "10.0.0"]]}, "10.0.0"),
        ({"entries": [[NUMBER["map"], "a"]]}, "entry 0"),
        ({"entries": [[len(NUMBER)]]}, "entry 0"),
        ({"entries": [[-1]]}, "entry 0"),
        ({"entries": [["Span", "a", 1, 2, 3]]}, "entry 0"),
        ({"entries": [[]]}, "entry 0"),
        ({"entries": [7]}, "entry 0"),
        ({"entries": 7}, "entry 0"),
        ({"entries": WHOLE["entries"][:1]}, "no entry 1"),
        ({"root": [9]}, "no entry 9"),
        ({"root": []}, "entry 2"),
    ],
)
def test_foreign_data_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(DecodingError, match=words):
        Decoder(TYPES, ENCODER.table).value(**{**WHOLE, **changes})


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (None, "no table of types"),
        ([7], "7 is no type"),
        ([[]], r"\[\] is no type"),
        ([["Popen", "args"]], "Popen has other fields"),
        ([["Span", "file"]], "Span has other fields"),
        ([["tuple", "items"]], "tuple has other fields"),
    ],
)
def test_a_table_of_other_types_is_refused(table: object, words: str) -> None:
    with pytest.raises(DecodingError, match=words):
        Decoder(TYPES, table)


def test_a_table_in_another_order_is_read() -> None:
    table = ENCODER.table[::-1]
    back = [[len(table) - 1 - kind, *parts] for kind, *parts in WHOLE["entries"]]
    value = Decoder(TYPES, table).value(back, WHOLE["root"])
    assert value == Origin(Span("a", 1, 2), "spec")
