# SPDX-License-Identifier: Apache-2.0
"""Calico's selector language: what expressions mean, and where mistakes in them are shown."""

import random
import string

import pytest

from policyc.compiler.frontend.calico.labels import (
    endpoint_selector,
    holds,
    on_workloads,
)
from policyc.compiler.frontend.calico.selector import (
    MAX_NESTING,
    NestingError,
    parse_expression,
)
from policyc.compiler.frontend.calico.tokens import SelectorError
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.embedded_text import RuleText
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Scalar,
)
from policyc.ir.diagnostics import Report
from policyc.ir.selectors import (
    ALWAYS,
    Attribute,
    AttributeTest,
    EndpointSelector,
    LabelSelector,
    Operator,
    Requirement,
)

A = {"app": "web", "tier": "front-end", "empty": "", "a.b/c-d_e": "x"}


@pytest.mark.parametrize(
    ("text", "is_match"),
    [
        ("", True),
        (" \t ", True),
        ("all()", True),
        ("all( )", True),
        ("!all()", False),
        ('app == "web"', True),
        ("app=='web'", True),
        ('app == "Web"', False),
        ('app != "web"', False),
        ('nope != "web"', True),
        ('nope == ""', False),
        ("empty == ''", True),
        ("app == 'it\"s'", False),
        ('app in {"x", "web"}', True),
        ('app in{"web"}', True),
        ('app in {"web",}', True),
        ("app in {}", False),
        ("nope not in {}", True),
        ('app not in {"x"}', True),
        ('app notin {"web"}', False),
        ('nope not \t in {"x"}', True),
        ('tier contains "t-e"', True),
        ('tier contains ""', True),
        ('nope contains ""', False),
        ('tier starts with "front"', True),
        ('tier startswith "end"', False),
        ('tier ends  with "end"', True),
        ('app contains"we"', True),
        ("has(app)", True),
        ("has( app )", True),
        ("has(nope)", False),
        ("!has(nope)", True),
        ("!!has(nope)", False),
        ("! ! ! has(nope)", True),
        ('!(app == "web")', False),
        ('!(tier starts with "x")', True),
        ('has(a.b/c-d_e) && a.b/c-d_e == "x"', True),
        ('app == "x" || has(tier) && has(nope)', False),
        ('app == "web" || has(tier) && has(nope)', True),
        ('(app == "web" || has(tier)) && has(nope)', False),
        ("((((has(app)))))", True),
        ('has == "x"', False),
        ('in != "x"', True),
        ('not != "x"', True),
        ('all == "x" || global != "x"', True),
    ],
)
def test_selector_expressions_have_their_meaning(text: str, is_match: bool) -> None:
    assert holds(parse_expression(text).condition, A) is is_match


@pytest.mark.parametrize(
    ("text", "at", "expected", "found", "hint"),
    [
        ('app = "web"', "=", "`==`", "`=`", "write `==`"),
        ('a == "b" & c == "d"', "&", "`&&`", "`&`", "write `&&`"),
        ('a == "b" | c == "d"', "|", "`||`", "`|`", "write `||`"),
        ("app == web", "web", "a quoted text", "`web`", 'quote it: "web"'),
        ('app == "web', '"web', 'a closing "', "the end of the selector", 'has no " at its end'),
        ("app ==", "", "a quoted text", "the end of the selector", ""),
        ("app", "", "an operator", "the end of the selector", "`has(app)`"),
        ('app contain "x"', "contain", "an operator", "`contain`", "did you mean `contains`?"),
        ('app starts "x"', "starts", "an operator", "`starts`", "did you mean `starts with`?"),
        ('app like "x"', "like", "an operator", "`like`", ""),
        ('a == "b" and c == "d"', "and", "`&&`, `||`", "`and`", "write `&&`"),
        ("has(a) OR has(b)", "OR", "`&&`, `||`", "`OR`", "write `||`"),
        ("not has(a)", "not", "`&&`, `||`", "`not`", "write `!`"),
        ("a in b", "b", "a set of quoted texts", "`b`", ""),
        ("a in {b}", "b", "a quoted text or `}`", "`b`", 'quote it: "b"'),
        ('a in {"b" "c"}', '"c"', "`,` or `}`", '`"c"`', ""),
        ('a in {"b"', "", "`,` or `}`", "the end of the selector", ""),
        ('has("a")', '"', "a label", '`"`', "without quotes"),
        ("has(a", "", "`)` after `has(a`", "the end of the selector", ""),
        ("has(a b)", "b", "`)` after `has(a`", "`b`", ""),
        ("all(x)", "x", "`)` after `all(`", "`x`", ""),
        ("has (a)", "(", "an operator", "`(`", "write `has(` without a space"),
        ('"a" == "b"', '"a"', "a label", '`"a"`', "without quotes"),
        ('(a == "b"', "", "`)`", "the end of the selector", ""),
        ('a == "b")', ")", "the end of the selector", "`)`", ""),
        ("has(a) &&", "", "a label", "the end of the selector", ""),
        ("|| has(a)", "||", "a label", "`||`", ""),
        ("has(a) has(b)", "has(b)", "`&&`", "`has(b)`", ""),
        ('a == "b" \n&& c == "d"', "\n", "a label", "a line break", "no line breaks"),
        ("ä == 'x'", "ä", "a label", "`ä`", ""),
        ("a == 'b' 💥", "💥", "a label", "`💥`", ""),
        ("()", ")", "a label", "`)`", ""),
    ],
)
def test_a_mistake_is_shown_at_its_place(
    text: str, at: str, expected: str, found: str, hint: str
) -> None:
    with pytest.raises(SelectorError) as raised:
        parse_expression(text)
    wrong = raised.value
    assert text[wrong.start : wrong.end] == at
    assert expected in wrong.expected
    assert wrong.found == found
    assert hint in wrong.hint
    assert bool(hint) == bool(wrong.hint)


def test_parentheses_may_be_nested_and_not_without_end() -> None:
    whole = "(" * MAX_NESTING + "has(a)" + ")" * MAX_NESTING
    assert parse_expression(whole).condition == parse_expression("has(a)").condition
    with pytest.raises(NestingError) as raised:
        parse_expression(f"({whole})")
    assert raised.value.at == MAX_NESTING
    assert holds(parse_expression("!" * 100_000 + "has(a)").condition, {"a": ""})


@pytest.mark.parametrize(
    ("text", "global_at", "is_only"),
    [
        ("global()", 0, True),
        ("  global( ) ", 2, True),
        ("!global()", 1, False),
        ("has(a) || global()", 10, False),
        ("has(a)", None, False),
    ],
)
def test_global_is_found(text: str, global_at: int | None, is_only: bool) -> None:
    found = parse_expression(text)
    assert (found.global_at, found.is_only_global) == (global_at, is_only)


def test_random_characters_parse_or_have_an_error_position() -> None:
    rng = random.Random(12)
    for _ in range(20_000):
        text = "".join(rng.choice(_CHARACTERS) for _ in range(rng.randint(0, 14)))
        _is_read_or_refused(text)


def test_changed_expressions_parse_or_have_an_error_position() -> None:
    rng = random.Random(13)
    whole = "!(a in {'x', 'y'} || b not in {\"z\"}) && c starts with 'd' && has(e) && f != ''"
    for _ in range(20_000):
        text = whole
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(_PIECES) + text[at + rng.randint(0, 5) :]
        _is_read_or_refused(text)


_CHARACTERS = string.printable + "äß \u0000\u2028💥'\"(){}!=&|,"
_PIECES = (*_CHARACTERS, "has(", "all()", "global()", " in ", "not in", "&&", "||", "", "")


def _is_read_or_refused(text: str) -> None:
    try:
        holds(parse_expression(text).condition, A)
    except SelectorError as wrong:
        assert 0 <= wrong.start <= wrong.end <= len(text)
        assert wrong.expected
        assert wrong.found
    except NestingError as wrong:
        assert text[wrong.at] == "("


def _selector(text: str) -> EndpointSelector:
    return endpoint_selector(on_workloads(parse_expression(text).condition))


def _labels(*requirements: Requirement) -> LabelSelector:
    return LabelSelector(requirements)


def test_a_conjunction_of_requirements_becomes_a_label_selector() -> None:
    text = "b != 'x' && a in {'2', '1'} && !has(c) && has(d) && !(e not in {'y'})"
    assert _selector(text) == EndpointSelector(
        labels=_labels(
            Requirement("a", Operator.IN, ("1", "2")),
            Requirement("b", Operator.NOT_IN, ("x",)),
            Requirement("c", Operator.DOES_NOT_EXIST),
            Requirement("d", Operator.EXISTS),
            Requirement("e", Operator.IN, ("y",)),
        )
    )


def test_calico_s_labels_are_the_attributes_that_they_stand_for() -> None:
    text = (
        "projectcalico.org/namespace == 'shop' && pcns.team == 'x' && a starts with 'b' "
        "&& projectcalico.org/orchestrator == 'k8s'"
    )
    starts = AttributeTest(Attribute.LABEL, Requirement("a", Operator.STARTS_WITH, ("b",)))
    assert _selector(text) == EndpointSelector(
        "shop", _labels(Requirement("team", Operator.IN, ("x",))), condition=starts
    )
    account = AttributeTest(Attribute.SERVICE_ACCOUNT, Requirement("", Operator.NOT_IN, ("robot",)))
    assert _selector("projectcalico.org/serviceaccount != 'robot'").condition == account
    assert _selector("pcsa.projectcalico.org/name != 'robot'").condition == account
    label = AttributeTest(Attribute.SERVICE_ACCOUNT_LABEL, Requirement("t", Operator.EXISTS))
    assert _selector("has(pcsa.t)").condition == label


def test_a_selector_of_two_namespaces_has_no_single_namespace() -> None:
    text = "projectcalico.org/namespace == 'a' && pcns.projectcalico.org/name == 'b'"
    selector = _selector(text)
    assert selector.namespace is None
    assert selector.condition != ALWAYS


@pytest.mark.parametrize(
    ("source", "needle", "line", "column"),
    [
        ("s: a = 'b'\n", "=", 1, 6),
        ("s:   a = 'b'\n", "=", 1, 8),
        ("s: \"a = 'b'\"\n", "=", 1, 7),
        ("s: 'a = \"b\"'\n", "=", 1, 7),
        ('{"s": "a = \'b\'"}\n', "=", 1, 10),
        ('s: "a = \\"b\\""\n', "=", 1, 7),
        ("s: 'a = ''b'''\n", "=", 1, 7),
        ('s: "a == \\"b\\" | c"\n', "|", 1, 16),
        ("s: |\n  has(x) ||\n  a = 'b'\n", "=", 3, 5),
        ("s: |-\n  has(x) ||\n  a = 'b'\n", "=", 3, 5),
        ("s: >-\n  a = 'b'\n", "=", 2, 5),
        ("s: has(x) ||\n  a = 'b'\n", "=", 2, 5),
        ("s: ä == 'ö' || b = 'c'\n", " = ", 1, 17),
    ],
)
def test_a_place_in_the_expression_is_a_place_in_the_file(
    source: str, needle: str, line: int, column: int
) -> None:
    document = next(iter(read_documents(source.encode(), "f", Report())))
    assert isinstance(document, Mapping)
    node = document.entries["s"].value
    assert isinstance(node, Scalar)
    at = node.text.index(needle)
    span = RuleText(node).span(at, at + len(needle))
    assert (span.line, span.column) == (line, column)
