# SPDX-License-Identifier: Apache-2.0
"""The sentences about results that several formats show."""

from policyc.ir.results.check import CheckResult
from policyc.ir.results.common import Evidence
from policyc.ir.results.diff import Difference, DifferenceKind, DiffOutcome, DiffResult
from policyc.ir.results.verify import IntentStatus, VerifyResult

DID = {
    DifferenceKind.WIDENED: "opened",
    DifferenceKind.NARROWED: "closed",
    DifferenceKind.CHANGED: "changed",
    DifferenceKind.LATENT: "latent",
}
"""What a change did to the flows of a region."""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 rule`, `2 rules`, `no rules`; `many` where it is not `one` and an s."""
    return f"{number or 'no'} {one if number == 1 else many or f'{one}s'}"


def evidence_words(evidence: Evidence) -> str:
    """How an answer was certified, in one line."""
    solvers = ", ".join(f"{name} {version}" for name, version in evidence.solvers)
    parts = [evidence.method, solvers]
    if evidence.queries:
        parts.append(counted(evidence.queries, "query", "queries"))
    if evidence.replayed_witnesses:
        witnesses = counted(evidence.replayed_witnesses, "witness", "witnesses")
        parts.append(f"{witnesses} replayed through the reference semantics")
    return "; ".join(part for part in parts if part)


def diff_headline(result: DiffResult) -> str:
    """The answer to a diff in one sentence."""
    match result.outcome:
        case DiffOutcome.EQUAL:
            latent = len(result.differences)
            more = f" ({counted(latent, 'latent difference')})" if latent else ""
            return f"no flow's verdict differs{more}"
        case DiffOutcome.UNDECIDED:
            return f"not decided: {result.undecided}"
        case _:
            kinds = (
                (kind, sum(each.kind is kind for each in result.differences))
                for kind in DifferenceKind
            )
            did = ", ".join(f"{counted(n, 'region')} {DID[kind]}" for kind, n in kinds if n)
            more = f", {result.omitted} more not shown" if result.omitted else ""
            return f"{did or counted(result.omitted, 'region')}{more}"


def region_words(difference: Difference) -> str:
    """A region of flows in one line."""
    return f"{difference.src} -> {difference.dst}: {', '.join(difference.services)}"


def check_headline(result: CheckResult) -> str:
    """The answer to a check in one sentence."""
    looked = (
        f"{counted(result.n_policies, 'policy', 'policies')}, {counted(result.n_rules, 'rule')}"
    )
    found = counted(len(result.findings), "finding")
    quiet = f", {len(result.suppressed)} suppressed" if result.suppressed else ""
    open_ = (
        f", {counted(len(result.undecided), 'question')} not decided" if result.undecided else ""
    )
    return f"{found}{quiet}{open_} in {looked}"


def verify_headline(result: VerifyResult) -> str:
    """How many intents hold, and what became of the others."""
    by = {status: sum(each.status is status for each in result.intents) for status in IntentStatus}
    parts = [f"{number} {status.value}" for status, number in by.items() if number]
    return (
        f"{counted(len(result.intents), 'intent')}: {', '.join(parts)}" if parts else "no intents"
    )
