# SPDX-License-Identifier: Apache-2.0
"""The edit that lists in `policyTypes` what a NetworkPolicy isolates, before it loses its last rule."""

from policyc.compiler.driver.check.fixes.edits import (
    Edit,
    NotEditableError,
    line_ending,
    line_start,
)
from policyc.compiler.driver.check.fixes.file_text import RulePart
from policyc.compiler.frontend.yaml.marked import MarkedSequence
from policyc.ir.policy import NETWORK_POLICY, Direction, Policy


def with_policy_types(text: str, part: RulePart, policy: Policy) -> Edit | None:
    """The edit, or None if the field is there. Raises NotEditableError."""
    if policy.kind != NETWORK_POLICY:
        raise NotEditableError(
            "it is the last rule of its list, and only policyTypes of a "
            "NetworkPolicy can keep its pods isolated"
        )
    given = part.spec.get("policyTypes")
    if given is not None:
        if isinstance(given, MarkedSequence) and given.items:
            return None
        raise NotEditableError("it is the last rule of its list, and policyTypes is empty")
    types = [each.value.capitalize() for each in Direction if each in policy.isolates]
    return _inserted(text, part, types)


def _inserted(text: str, part: RulePart, types: list[str]) -> Edit:
    """The field before the key of the list: on its line in flow style, above it in block style."""
    at = part.key.marks.start
    quote = '"' if text.startswith('"', at) else ""
    listed = ", ".join(f"{quote}{each}{quote}" for each in types)
    field = f"{quote}policyTypes{quote}: [{listed}]"
    if part.spec.marks.is_flow:
        return Edit(at, at, f"{field}, ")
    begin = line_start(text, at)
    indent = text[begin:at]
    if indent.strip():
        raise NotEditableError("its list begins in the middle of a line")
    return Edit(begin, begin, f"{indent}{field}{line_ending(text)}")
