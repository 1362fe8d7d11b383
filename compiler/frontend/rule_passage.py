# SPDX-License-Identifier: Apache-2.0
"""A passage: text in the rule language, whose it is, and where what is wrong with it goes."""

from collections.abc import Iterable
from dataclasses import dataclass

from policyc.compiler.frontend import codes_extended as codes
from policyc.compiler.frontend.nodes import clipped
from policyc.compiler.frontend.rule_text import FileText, RuleText
from policyc.compiler.frontend.spelling import did_you_mean, nearest
from policyc.grammar.parse import DEEPEST, Parsed, SyntaxProblem
from policyc.grammar.tokens import (
    ACTIONS,
    END,
    KEYWORDS,
    NUMBER,
    PROMISES,
    QUALIFIED,
    SECTIONS,
    STRAY,
    WORD,
    Token,
)
from policyc.ir.diagnostics import Code, Report
from policyc.ir.spans import Span

_ALIKE = 0.6
ENTITIES = ("world", "cluster", "host", "remote-node")


@dataclass(frozen=True, slots=True)
class Passage:
    """`path` is the field's; `namespace` that of the object, empty where it has none."""

    text: RuleText | FileText
    path: str
    report: Report
    namespace: str = ""

    def span(self, token: Token, skip: int = 0, length: int | None = None) -> Span:
        """Where a word stands, or the part of it that begins after `skip` characters."""
        start = token.start + skip
        return self.text.span(start, token.end if length is None else start + length)

    def say(self, code: Code, where: Token | Span, hint: str = "", **values: object) -> None:
        """Report a finding at a word."""
        span = where if isinstance(where, Span) else self.span(where)
        found = code.at(span, self.path, **values)
        self.report.add(found.help(hint) if hint else found)

    def say_problems(self, parsed: Parsed) -> None:
        """Report what the grammar did not take."""
        for problem in parsed.problems:
            self._say_problem(problem)

    def _say_problem(self, problem: SyntaxProblem) -> None:
        found = problem.found
        if problem.is_too_deep:
            self.say(codes.TOO_DEEP, found, "name the parts in several rules", limit=DEEPEST)
            return
        code = codes.STRAY if found.kind == STRAY else codes.SYNTAX
        self.say(
            code,
            found,
            _hint(found, frozenset(problem.expected)),
            expected=_in_words(frozenset(problem.expected)),
            found=_shown(found),
        )


def suggestion(name: str, names: Iterable[str]) -> str:
    """A hint with the nearest name; those of this language are short, so few letters must be alike."""
    known = sorted(names)
    near = nearest(name, known, _ALIKE)
    return did_you_mean(name, known) if near is None else f"did you mean `{near}`?"


def _shown(token: Token) -> str:
    return "the end of the line" if token.kind == END else f"`{clipped(token.text, 60)}`"


_EXPRESSION = frozenset(
    ("!", "(", "ATTRIBUTE", "all", "has", "namespace", "node", "ns", "pod", "serviceaccount")
)
_SERVICE = frozenset(("any", "tcp", "udp", "sctp", "icmp", "icmpv6", "protocol", QUALIFIED))
_PEER = _EXPRESSION | {"any", "ADDRESS", "service", "entity"}
_TEST = frozenset(("==", "!=", "in", "not", "exists", "starts", "ends", "contains"))
_GROUPS = (
    (_SERVICE, "a service such as tcp/443"),
    (
        _PEER,
        'a peer (`any`, an expression such as pod.app == "web", an address, `service`, `entity`)',
    ),
    (_EXPRESSION, 'an expression such as pod.app == "web"'),
    (_TEST, 'a test such as == "web"'),
    (frozenset(ACTIONS), "an action (" + ", ".join(f"`{action}`" for action in ACTIONS) + ")"),
)
"""Kinds that stand for one thing when all of them are expected."""
_NAMES = {
    "STRING": "a text in quotes",
    "ATTRIBUTE": "a label such as pod.app",
    "ADDRESS": "an address or CIDR",
    "QUALIFIED": "two names with a slash",
    "NUMBER": "a number",
    "WORD": "a name",
    END: "the end of the line",
}


def _in_words(expected: frozenset[str]) -> str:
    """What could have stood there, as people say it."""
    rest, said = set(expected), []
    for group, words in _GROUPS:
        if group <= expected and group & rest:
            rest -= group
            said.append(words)
    names = [_NAMES.get(kind, f"`{kind}`") for kind in sorted(rest, key=lambda k: (k in _NAMES, k))]
    said = names + said if END not in rest else [*names[:-1], *said, names[-1]]
    if not said:
        return "something else"
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} or {said[-1]}"


_OF_STRAYS = {
    "=": "equality is `==`",
    "&": "`and` is `&&`",
    "|": "`or` between expressions is `||`",
    '"': "the text in quotes does not end on its line",
    "'": "the text in quotes does not end on its line",
    ";": "one rule a line, and nothing between them",
}


def _hint(found: Token, expected: frozenset[str]) -> str:
    """What was probably meant."""
    if found.kind == STRAY:
        return _OF_STRAYS.get(found.text, "")
    if found.text in ENTITIES and "entity" in expected:
        return f"did you mean `entity {found.text}`?"
    if found.kind == QUALIFIED and "service" in expected:
        return f"if it is a Service: `service {clipped(found.text)}`"
    if found.kind in _SERVICE and END in expected and found.kind not in expected:
        return "services stand right behind the first word: allow tcp/80 from ..."
    if found.kind in (*ACTIONS, *PROMISES, *SECTIONS) and END in expected:
        return "each stands on a line of its own; begin the field's text with `|`"
    if found.kind == NUMBER and expected >= _SERVICE:
        return f"name the protocol: tcp/{found.text[:10]}"
    if (found.kind == WORD or found.kind in KEYWORDS) and found.text:
        near = nearest(found.text, [kind for kind in expected if kind in KEYWORDS], _ALIKE)
        if near is not None and near != found.text:
            return f"did you mean `{near}`?"
        if found.text in ("and", "AND") and "&&" in expected:
            return "`and` is `&&`"
        if "STRING" in expected:
            return f'put it in quotes: "{clipped(found.text)}"'
    return ""
