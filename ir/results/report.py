# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc report`: all answers about a change or a policy set. Data only."""

from dataclasses import dataclass, field

from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import Policy
from policyc.ir.results.check import CheckResult
from policyc.ir.results.diff import DiffResult
from policyc.ir.results.listing import ListResult
from policyc.ir.results.verify import VerifyResult
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file around a rule or policy.

    `first` is the number of the first line. `marked` are the numbers of the first and last line of the
    rule or policy itself. `n_more` counts its lines after those shown.
    """

    first: int
    lines: tuple[str, ...]
    marked: tuple[int, int]
    n_more: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The answers about a change from `before` to `after`, or about the one set `after`.

    `diff` is None for one set, `listing` for a change and without a cluster, `intents` if none are
    given. `check` and `intents` are about `after`. `policies` are those of the one set. `reading` are
    the findings of the readers, `excerpts` the source of the places that the answers name.
    """

    before: str
    after: str
    check: CheckResult
    diff: DiffResult | None = None
    listing: ListResult | None = None
    intents: VerifyResult | None = None
    policies: tuple[Policy, ...] = ()
    reading: tuple[Diagnostic, ...] = ()
    excerpts: dict[Span, Excerpt] = field(default_factory=dict)
