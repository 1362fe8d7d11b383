# SPDX-License-Identifier: Apache-2.0
"""`policyc schema`, and what the schemas of policyc's own kinds take and refuse."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from policyc.compiler.cli.main import run

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "schemas"
NAMES = sorted(path.name.removesuffix(".schema.json") for path in FOLDER.glob("*.json"))


def test_schema_without_a_name_lists_all_names(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert capfd.readouterr().out.split() == NAMES
    assert {"extended-policy", "intent", "bundle-v1"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_printed_unchanged(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", name]) == 0
    assert capfd.readouterr().out == (FOLDER / f"{name}.schema.json").read_text()


def test_schema_proposes_the_nearest_name(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "intnt"]) == 2
    assert "did you mean `intent`?" in capfd.readouterr().err


def is_valid(name: str, value: Any) -> bool:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


POLICY: dict[str, Any] = {
    "apiVersion": "policyc.dev/v1alpha1",
    "kind": "ExtendedPolicy",
    "metadata": {"name": "p"},
    "spec": {"tier": 5, "appliesTo": "all", "rules": "# c\ningress:\n"},
}
INTENT: dict[str, Any] = {
    "apiVersion": "policyc.dev/v1alpha1",
    "kind": "Intent",
    "metadata": {"name": "p"},
    "spec": {"intents": "never any"},
}


def test_the_examples_are_valid() -> None:
    for path in (ROOT / "examples" / "extended" / "policies").glob("*.yaml"):
        for value in yaml.safe_load_all(path.read_text()):
            assert is_valid("extended-policy", value), value
    assert is_valid("extended-policy", POLICY)
    assert is_valid("intent", INTENT)


SPECS: list[dict[str, Any]] = [
    {"tier": 1000},
    {"tier": 1_000_000},
    {"tier": -1},
    {"tier": "5"},
    {"tier": 2**31},
    {"order": 1.5},
    {"appliesTo": ""},
    {"rules": "pass"},
    {"rules": []},
    {"rule": ""},
]


@pytest.mark.parametrize("wrong", SPECS)
def test_the_schema_refuses_input_that_policyc_refuses(wrong: dict[str, Any]) -> None:
    assert not is_valid("extended-policy", POLICY | {"spec": POLICY["spec"] | wrong})


def test_a_missing_field_is_refused() -> None:
    for name in POLICY["spec"]:
        spec = {key: value for key, value in POLICY["spec"].items() if key != name}
        assert not is_valid("extended-policy", POLICY | {"spec": spec})
    for spec in ({}, {"intents": ""}, {"intents": "any"}, {"intents": "never any", "x": 1}):
        assert not is_valid("intent", INTENT | {"spec": spec})
