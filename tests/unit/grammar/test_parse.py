# SPDX-License-Identifier: Apache-2.0
"""The grammar: every construct, SLL prediction alone, statements over lines, and what was expected."""

from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from antlr4.atn.PredictionMode import PredictionMode
from antlr4.error.ErrorListener import ErrorListener
from hypothesis import given
from hypothesis import strategies as st

from policyc.grammar import shapes
from policyc.grammar.parse import DEEPEST, parse_expression, parse_intents, parse_rules
from policyc.grammar.statements import INTENT_STARTS, RULE_STARTS, statements
from policyc.grammar.tokens import KEYWORDS, Token, tokenise
from tests.unit.grammar.samples import BLOCKS, INTENTS, RULE, RULES


def shown(value: Any) -> Any:
    """A tree as nested tuples of texts."""
    if isinstance(value, Token):
        return value.text
    if is_dataclass(value):
        return (type(value).__name__, *(shown(getattr(value, f.name)) for f in fields(value)))
    return tuple(shown(item) for item in value) if isinstance(value, tuple) else value


def tree(text: str) -> Any:
    parsed = parse_expression(text)
    assert not parsed.problems
    return shown(parsed.items[0])


def test(attribute: str, operator: str, *values: str, key: str | None = None) -> Any:
    return ("Test", ("Attribute", attribute, key), operator, values)


test.__test__ = False  # type: ignore[attr-defined]

EXPRESSIONS = [
    ('pod.app == "a"', test("pod.app", "==", '"a"')),
    ("pod['a/b'] != 'x'", test("pod", "!=", "'x'", key="'a/b'")),
    ('ns.e in {"a", "b"}', test("ns.e", "in", '"a"', '"b"')),
    ('ns.e not in {"a"}', test("ns.e", "not in", '"a"')),
    ("node.z exists", test("node.z", "exists")),
    ("has(node)", test("node", "exists")),
    ('namespace starts with "x"', test("namespace", "starts", '"x"')),
    ('serviceaccount ends with "x"', test("serviceaccount", "ends", '"x"')),
    ('pod.a contains "x"', test("pod.a", "contains", '"x"')),
    ("all", ("Everything", "all")),
    ("!all", ("Negation", ("Everything", "all"))),
    ("!(all)", ("Negation", ("Everything", "all"))),
]


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_an_expression_s_tree(text: str, expected: Any) -> None:
    assert tree(text) == expected


def test_and_binds_before_or_and_not_before_both() -> None:
    a, b, c = (test(f"pod.{x}", "exists") for x in "abc")
    assert tree("pod.a exists || pod.b exists && pod.c exists") == (
        "Disjunction",
        (a, ("Conjunction", (b, c))),
    )
    assert tree("(pod.a exists || pod.b exists) && pod.c exists") == (
        "Conjunction",
        (("Disjunction", (a, b)), c),
    )
    assert tree("!pod.a exists && pod.b exists") == ("Conjunction", (("Negation", a), b))


def test_a_rule_s_tree() -> None:
    text = (
        'allow tcp/80, icmp 3 code 4 to ::/0 except {::1, ::2} or node all limit 5/s burst 6 as "n"'
    )
    parsed = parse_rules(text)
    assert not parsed.problems
    assert shown(parsed.items[0]) == (
        "Rule",
        "allow",
        (("Service", "tcp/80", None, None), ("Service", "icmp", "3", "4")),
        "to",
        (
            ("AddressPeer", "::/0", ("::1", "::2")),
            ("NodePeer", "node", ("Everything", "all")),
        ),
        (("Modifier", "limit", "5/s", "6"), ("Modifier", "as", '"n"', None)),
        (),
        (),
    )


def test_exceptions_and_both_sides_of_a_rule() -> None:
    parsed = parse_rules(
        "allow any except {tcp/1, udp} from any to entity world in ::/0 except ::1"
    )
    assert not parsed.problems
    block = ("AddressPeer", "::/0", ("::1",))
    assert shown(parsed.items[0])[3:] == (
        "from",
        (("AnyPeer", "any"),),
        (),
        (("Service", "tcp/1", None, None), ("Service", "udp", None, None)),
        (("Inside", ("EntityPeer", "world"), block),),
    )
    (rule,) = parse_rules('deny tcp except tcp/80 to (pod.a == "x" || all) in 10.0.0.1').items
    assert shown(rule.excepts) == (("Service", "tcp/80", None, None),)
    assert (rule.side.text, rule.others) == ("to", ())
    assert shown(rule.peers[0])[2] == ("AddressPeer", "10.0.0.1", ())


def test_the_sides_of_intents() -> None:
    parsed = parse_intents(
        "isolated entity a from entity b\nonly from any to entity c\nnever to any"
    )
    sides = [(shown(item.src), shown(item.dst)) for item in parsed.items]
    assert sides == [
        ((("EntityPeer", "b"),), (("EntityPeer", "a"),)),
        ((("AnyPeer", "any"),), (("EntityPeer", "c"),)),
        ((), (("AnyPeer", "any"),)),
    ]


@pytest.mark.parametrize("text", RULES)
def test_each_rule_parses_as_one_item(text: str) -> None:
    parsed = parse_rules(text)
    assert (len(parsed.items), parsed.problems) == (1, ())


@pytest.mark.parametrize("text", INTENTS)
def test_each_intent_parses_as_one_item(text: str) -> None:
    parsed = parse_intents(text)
    assert (len(parsed.items), parsed.problems) == (1, ())


class Ambiguities(ErrorListener):  # type: ignore[misc]
    def reportAmbiguity(self, *_: Any) -> None:  # noqa: N802
        raise AssertionError("the grammar is ambiguous")

    def reportContextSensitivity(self, *_: Any) -> None:  # noqa: N802
        raise AssertionError("SLL prediction would not do")

    def syntaxError(self, *_: Any) -> None:  # noqa: N802
        raise AssertionError("not a sentence")


@given(RULE)
def test_sll_prediction_suffices_for_every_rule(text: str) -> None:
    shape = tuple(token.kind for token in tokenise(text))
    tokens = [shapes._token(shapes.TYPES[kind], at) for at, kind in enumerate(shape)]
    tokens.append(shapes._token(-1, len(shape)))
    source = shapes.ListTokenSource(tokens)
    parser: Any = shapes.PolicycParser(shapes.CommonTokenStream(source))
    parser.removeErrorListeners()
    parser.addErrorListener(Ambiguities())
    parser._interp.predictionMode = PredictionMode.LL_EXACT_AMBIG_DETECTION
    parser.statement()


@given(st.lists(st.sampled_from(sorted(KEYWORDS | {"==", "(", ")", ",", "STRING", "ADDRESS"}))))
def test_both_modes_take_the_same_sentences(kinds: list[str]) -> None:
    shape = tuple(kinds)
    results = [
        shapes._attempt("statement", shape, mode)
        for mode in (PredictionMode.SLL, PredictionMode.LL)
    ]
    assert len({isinstance(result, shapes.Mismatch) for result in results}) == 1


@given(BLOCKS)
def test_the_parser_finds_every_statement_of_a_block(text: str) -> None:
    parsed = parse_rules(text)
    assert not parsed.problems
    assert len(parsed.items) == len(statements(tokenise(text), RULE_STARTS))


OVER_LINES = [
    ("allow tcp/1,\ntcp/2 from any", 1),
    ("allow tcp/1\nfrom any", 1),
    ("allow from pod.a exists &&\n\n# why\npod.b exists", 1),
    ("allow from pod.a exists\n&& pod.b exists\n|| pod.c exists\nor any", 1),
    ('allow from pod.a in {\n"a",\n"b"\n}\nas "x"\nlimit 1/s', 1),
    ("allow from 10.0.0.0/8\nexcept 10.1.0.0/16", 1),
    ("allow from any\nlog", 2),
    ("allow from any\nlog tcp/1", 2),
    ("allow from (pod.a exists\nallow from any", 2),
    ("pass\npass\r\npass", 3),
]


@pytest.mark.parametrize(("text", "number"), OVER_LINES)
def test_a_statement_ends_where_the_next_one_starts(text: str, number: int) -> None:
    assert len(statements(tokenise(text), RULE_STARTS)) == number


def test_a_section_starts_a_statement_and_a_scope_does_not() -> None:
    text = "never any\nbecause 'x'\n  ingress\nnever any"
    assert len(statements(tokenise(text), INTENT_STARTS)) == 2
    assert len(statements(tokenise("pass\ningress:"), RULE_STARTS)) == 2


EXPECTED = [
    ("alow any", "alow", {"allow", "deny", "ingress"}, {"from"}),
    ("allow form any", "form", {"from", "to", "log", "<EOF>"}, {"&&", "or"}),
    ("allow from", "", {"any", "ADDRESS", "service", "pod"}, {"tcp", "<EOF>"}),
    ("allow from pod.a", "", {"==", "exists", "in"}, {"&&", "STRING"}),
    ("allow from pod.a exists x", "x", {"&&", "||", ",", "or", "log", "<EOF>"}, {"any"}),
    ('allow from pod.a in "x"', '"x"', {"{"}, {"STRING"}),
    ("allow from any any", "any", {",", "or", "as", "<EOF>"}, {"any", "&&"}),
    ("ingress", "", {":"}, {"<EOF>"}),
    ("ingress: allow", "allow", {"<EOF>"}, {"allow"}),
    ("allow tcp/1, from any", "from", {"any", "tcp", "QUALIFIED"}, {"from"}),
    ("allow from pod.a = 'x'", "=", {"=="}, set()),
]


@pytest.mark.parametrize(("text", "found", "some", "none"), EXPECTED)
def test_messages_name_the_expected_tokens(
    text: str, found: str, some: set[str], none: set[str]
) -> None:
    (problem,) = parse_rules(text).problems
    assert problem.found.text == found
    assert some <= set(problem.expected)
    assert not none & set(problem.expected)


def test_errors_of_several_lines_are_all_reported() -> None:
    parsed = parse_rules(
        "allw\ningress:\n  allow tcp/1 form any\n  pass\n  deny from (all\n  pass\n"
    )
    assert [problem.found.start for problem in parsed.problems] == [0, 28, 60]
    assert len(parsed.items) == 3


def test_nesting_has_a_limit_and_one_below_it_is_read() -> None:
    deep = DEEPEST - 1
    assert parse_expression("(" * deep + "all" + ")" * deep).items
    assert parse_expression("!" * deep + "all").items
    assert parse_expression(" && ".join(["!(all)"] * 200)).items
    for text in ("(" * 100_000 + "all", "!" * 100_000 + "all", "!(" * 60 + "all" + ")" * 60):
        (problem,) = parse_expression(text).problems
        assert problem.is_too_deep


def test_a_statement_may_be_long() -> None:
    values = ", ".join(f'"v{number}"' for number in range(2000))
    (rule,) = parse_rules(f"allow from pod.a in {{{values}}}").items
    assert len(rule.peers[0].expression.values) == 2000


def test_an_empty_text_is_not_an_expression() -> None:
    for text in ("", "  \n", "# only this"):
        assert parse_expression(text).problems


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_rules, parse_intents, parse_expression):
        for problem in parse(text).problems:
            assert 0 <= problem.found.start <= problem.found.end <= len(text)
