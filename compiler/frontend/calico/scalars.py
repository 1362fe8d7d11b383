# SPDX-License-Identifier: Apache-2.0
"""Selectors inside YAML: decoded from their fields, mistakes shown at the exact character."""

from dataclasses import dataclass, field

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.calico.selector import (
    MAX_NESTING,
    Expression,
    NestingError,
    parse_expression,
)
from policyc.compiler.frontend.calico.tokens import SelectorError
from policyc.compiler.frontend.kubernetes.decode import Decoder
from policyc.compiler.frontend.yaml.embedded_text import RuleText
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    Scalar,
)
from policyc.ir.diagnostics import Report
from policyc.ir.selectors import Condition
from policyc.ir.spans import Span

NOT_SELECTOR = "notSelector"


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector in a field: its meaning, and its place."""

    condition: Condition
    is_global: bool
    span: Span = field(compare=False)
    path: str = field(compare=False)


def decode_expression(
    decoder: Decoder, parent: Mapping, name: str, path: str, may_be_global: bool = False
) -> Selector | None:
    """The selector in a field; None if it is absent, empty or wrong, which is reported.

    In `notSelector` Calico does not detect `global()`, and treats it as `all()`.
    """
    text = decoder.string(parent, name, path)
    node = parent.get(name)
    if not text or not isinstance(node, Scalar):
        return None
    where = f"{path}.{name}"
    found = _parsed(text, node, where, decoder.report)
    if found is None:
        return None
    if name == NOT_SELECTOR:
        return Selector(found.condition, False, node.span, where)
    if found.global_at is not None and not (may_be_global and found.is_only_global):
        at = found.global_at
        span = RuleText(node).span(at, at + len("global()"))
        finding = codes.GLOBAL_MISPLACED.at(span, where, where=where)
        decoder.report.add(finding.help("all() selects everything in reach"))
        return None
    return Selector(found.condition, found.is_only_global, node.span, where)


def _parsed(text: str, node: Scalar, where: str, report: Report) -> Expression | None:
    try:
        return parse_expression(text)
    except SelectorError as wrong:
        span = RuleText(node).span(wrong.start, wrong.end)
        finding = codes.SELECTOR_SYNTAX.at(
            span, where, where=where, expected=wrong.expected, found=wrong.found
        )
        report.add(finding.help(wrong.hint))
    except NestingError as wrong:
        span = RuleText(node).span(wrong.at, wrong.at + 1)
        report.add(codes.SELECTOR_DEPTH.at(span, where, where=where, limit=MAX_NESTING))
    return None
