# SPDX-License-Identifier: Apache-2.0
"""Policies as JSON and back: nothing is lost, and what is not ours is refused."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from policyc.compiler.driver.bundle_policies import _TYPES, POLICIES_SCHEMA, policies_json
from policyc.compiler.driver.compile import Inputs, read_inputs
from policyc.compiler.frontend.read import PolicyInput, ReadOptions
from policyc.compiler.frontend.sources import PathSource
from policyc.ir.encoding import DecodingError, decode, encode
from policyc.ir.spans import Origin, Span
from tests.property.tiered_cases import tiered_case

GOLDEN = Path(__file__).parents[1] / "golden" / "policy_ir"
CASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir())


def copied(value: object) -> Any:
    return decode(json.loads(json.dumps(encode(value, _TYPES))), _TYPES)


def read_case(case: str) -> PolicyInput:
    cluster = GOLDEN / case / "cluster.yaml"
    clusters = (PathSource(str(cluster)),) if cluster.exists() else ()
    given = Inputs((PathSource(str(GOLDEN / case / "policies.yaml")),), clusters, ReadOptions())
    return read_inputs(given).policies


@pytest.mark.parametrize("case", CASES)
def test_policies_of_every_api_come_back_with_their_places(case: str) -> None:
    given = read_case(case)
    for value in (given.policies, given.staged):
        back = copied(value)
        assert back == value
        assert encode(back, _TYPES) == encode(value, _TYPES)  # == leaves places and names out


def test_random_policy_sets_come_back() -> None:
    for seed in range(200):
        given = tiered_case(random.Random(seed)).policies
        back = copied(given)
        assert back == given, seed
        assert encode(back, _TYPES) == encode(given, _TYPES), seed


def test_the_same_policies_are_the_same_text() -> None:
    given = read_case("mixed_kubernetes")
    text = policies_json(given, given.policies)
    assert text == policies_json(read_case("mixed_kubernetes"), given.policies)
    assert json.loads(text)["schema"] == POLICIES_SCHEMA


def test_numbers_and_truth_are_not_one_value() -> None:
    value = ((1,), (True,), (1.0,), ("1",), (None,))
    assert repr(copied(value)) == repr(value)


def test_only_known_types_are_written() -> None:
    with pytest.raises(TypeError, match="Path is not among"):
        encode((GOLDEN,), _TYPES)


def broken(**changes: object) -> dict[str, Any]:
    whole = encode(Origin(Span("a", 1, 2), "spec"), _TYPES)
    return {**whole, **changes}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "expected the fields"),
        ({"root": 1}, "expected the fields"),
        (broken(fields={"Span": ["file"]}), "Span has other fields"),
        (broken(fields={"Popen": ["args"]}), "Popen has other fields"),
        (broken(entries=[["Popen", "true"]]), "entry 0"),
        (broken(entries=[["tuple", [0]]]), "no entry 0 before it"),
        (broken(entries=[["tuple", [-1]]]), "no entry -1 before it"),
        (broken(entries=[["Span", "a"]]), "entry 0"),
        (broken(entries=[["Action", "perhaps"]]), "perhaps"),
        (broken(entries=7), "entry 0"),
        (broken(root=[9]), "no entry 9"),
    ],
)
def test_what_is_not_ours_is_refused(value: object, words: str) -> None:
    with pytest.raises(DecodingError, match=words):
        decode(value, _TYPES)
