# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in an ExtendedPolicy or an intents file, there is an answer or a diagnostic."""

import io
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.frontend import read_scenario
from policyc.compiler.frontend.extended.formatting import (
    format_intent_file,
    format_yaml_file,
)
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.read_intents import read_intents
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.grammar.tokens import KEYWORDS
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.ir.spans import Span
from tests.unit.grammar.samples import BLOCKS, EXPRESSIONS, INTENTS, RULES

HEAD = "apiVersion: policyc.dev/v1alpha1\nkind: ExtendedPolicy\nmetadata: {name: p}\nspec:\n"
SIGNS = st.sampled_from("\"'(){}[]/:!=&|#")
SCRAPS = st.one_of(st.sampled_from(sorted(KEYWORDS)), st.text(max_size=4), SIGNS)
FIELDS = ("tier", "order", "appliesTo", "rules", "intents", "rule", "status")
NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none())
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(NUMBERS, st.text(max_size=8), BLOCKS, EXPRESSIONS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


def refused_or_not(text: bytes, name: str) -> None:
    """Every error has a code and a place, and that of a word is one of the file."""
    source = StreamSource(io.BytesIO(text), name)
    try:
        if name.endswith(".intent"):
            read_intents([source])
        else:
            read_policies([source])
    except InputError as wrong:
        assert wrong.findings
        for finding in wrong.findings:
            assert finding.code.startswith("PC")
            assert finding.span.file == name
            if finding.code.startswith(("PC14", "PC15")):
                assert is_within(finding.span, text.decode("utf-8-sig", "replace").split("\n"))


def is_within(span: Span, lines: list[str]) -> bool:
    """Whether a place is a character of the file, or right behind the end of a line."""
    if span.line == 0:
        return True
    return span.line <= len(lines) and span.column <= len(lines[span.line - 1]) + 1


@st.composite
def mutated(draw: st.DrawFn, texts: tuple[str, ...]) -> str:
    """Good lines with some of their characters replaced."""
    text = "\n".join(draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(SCRAPS) + text[at + draw(st.integers(0, 6)) :]
    return text


@given(mutated(RULES))
@settings(max_examples=200)
def test_mutated_blocks(text: str) -> None:
    lines = "".join(f"    {line}\n" for line in f"ingress:\n{text}".splitlines())
    refused_or_not((HEAD + "  tier: 5\n  appliesTo: all\n  rules: |\n" + lines).encode(), "p.yaml")


@given(mutated(INTENTS))
def test_mutated_intents(text: str) -> None:
    refused_or_not(text.encode("utf-8", "replace"), "x.intent")


@given(st.binary(max_size=60))
def test_bytes(data: bytes) -> None:
    refused_or_not(data, "x.intent")
    refused_or_not(HEAD.encode() + data, "p.yaml")
    format_intent_file(data, "x.intent", Report())
    format_yaml_file(HEAD.encode() + data, "p.yaml", Report())


@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, VALUES)),
    st.sampled_from(["ExtendedPolicy", "Intent"]),
    VALUES,
)
@settings(max_examples=200)
def test_objects_with_wrong_fields(spec: dict[str, Any], kind: str, namespace: Any) -> None:
    metadata = {"name": "p", "namespace": namespace}
    value = {"apiVersion": "policyc.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    try:
        read_scenario("x", [value])
    except InputError as wrong:
        assert wrong.findings
