# SPDX-License-Identifier: Apache-2.0
"""A passage: text in the rule language, its owner, and the receiver of its findings."""

from dataclasses import dataclass

from policyc.compiler.frontend.extended import codes
from policyc.compiler.frontend.extended.rule_hints import (
    hint_for,
    in_words,
    shown,
)
from policyc.compiler.frontend.yaml.embedded_text import (
    FileText,
    RuleText,
)
from policyc.grammar.parse import DEEPEST, Parsed, SyntaxProblem
from policyc.grammar.tokens import STRAY, Token
from policyc.ir.diagnostics import Code, Report
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class Passage:
    """`path` is the field's; `namespace` that of the object, empty if it has none."""

    text: RuleText | FileText
    path: str
    report: Report
    namespace: str = ""

    def span(self, token: Token, skip: int = 0, length: int | None = None) -> Span:
        """The place of a word, or of the part of it that begins after `skip` characters."""
        start = token.start + skip
        return self.text.span(start, token.end if length is None else start + length)

    def say(self, code: Code, where: Token | Span, hint: str = "", **values: object) -> None:
        """Report a finding at a word."""
        span = where if isinstance(where, Span) else self.span(where)
        found = code.at(span, self.path, **values)
        self.report.add(found.help(hint) if hint else found)

    def say_problems(self, parsed: Parsed) -> None:
        """Report what the grammar did not accept."""
        for problem in parsed.problems:
            self._say_problem(problem)

    def _say_problem(self, problem: SyntaxProblem) -> None:
        found = problem.found
        if problem.is_too_deep:
            self.say(codes.TOO_DEEP, found, "name the parts in several rules", limit=DEEPEST)
            return
        code = codes.STRAY if found.kind == STRAY else codes.SYNTAX
        expected = in_words(problem)
        self.say(code, found, hint_for(problem), expected=expected, found=shown(found))
