# SPDX-License-Identifier: Apache-2.0
"""Positions in the source: file, line and column. Every node of the IR carries one."""

from policyc.ir.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in an input. Lines and columns count from 1; `end_column` is exclusive.

    `end_column` 0 means "not known": the caret then covers one character.
    """

    file: str
    line: int
    column: int
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Span("<none>", 0, 0)
"""The span of nodes without a source: defaults, and objects built by tests."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a rule or policy: a place, and the path of the field inside its object.

    `path` is the API's own notation, for example `spec.ingress[0]`.
    """

    span: Span
    path: str
