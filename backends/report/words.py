# SPDX-License-Identifier: Apache-2.0
"""The sentences about results that several formats show."""

from collections import Counter
from collections.abc import Mapping, Sequence

from policyc.ir.counts import counted
from policyc.ir.diagnostics import Severity
from policyc.ir.results.check import CheckResult, ConfigUsed
from policyc.ir.results.common import Evidence, OpaquePart
from policyc.ir.results.diff import (
    Counts,
    Difference,
    DifferenceKind,
    DiffOutcome,
    DiffResult,
    RegionCount,
    left_out,
)
from policyc.ir.results.objects import ObjectChanges
from policyc.ir.results.opaque import words_of
from policyc.ir.results.verify import IntentStatus, VerifyResult

DID = {
    DifferenceKind.WIDENED: "opened",
    DifferenceKind.NARROWED: "closed",
    DifferenceKind.CHANGED: "changed",
    DifferenceKind.LATENT: "latent",
}
"""The change of a region's flows, in words."""
MAY_BE = {kind: f"may be {did}" for kind, did in DID.items()}
"""The same, if the change depends on opaque rules."""
MOST_OPAQUE = 10
"""The number of opaque rules that the notes name."""


def evidence_words(evidence: Evidence) -> str:
    """The certification of an answer, in one line."""
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
            latent = next(n for n in result.counts if n.kind is DifferenceKind.LATENT)
            more = f" ({_counted_regions(latent, 'latent difference')})" if latent.number else ""
            return f"no flow's verdict differs{more}"
        case DiffOutcome.UNDECIDED:
            return f"not decided: {result.undecided}"
        case _:
            may_be = counts_words(result.possible_counts, MAY_BE)
            return counts_words(result.counts) + (f"; undecided: {may_be}" if may_be else "")


def counts_words(counts: Counts, did: Mapping[DifferenceKind, str] = DID) -> str:
    """The number of regions of each kind: `40 regions opened, at least 200 regions closed`."""
    return ", ".join(
        f"{_counted_regions(each, 'region')} {did[each.kind]}" for each in counts if each.number
    )


def _counted_regions(count: RegionCount, one: str) -> str:
    return f"{'' if count.is_complete else 'at least '}{counted(count.number, one)}"


def opaque_notes(parts: Sequence[OpaquePart]) -> list[str]:
    """The opaque rules, a sentence for each of the first ones."""
    notes = [
        f"{f'{part.side}: ' if part.side else ''}{words_of(part)}, which policyc does not support"
        for part in parts[:MOST_OPAQUE]
    ]
    more = len(parts) - len(notes)
    return [*notes, f"{counted(more, 'more rule')} that policyc does not decide"] if more else notes


def objects_words(changes: ObjectChanges) -> str:
    """The number of policies that changed: `7 policies removed, 1 added`; empty if none did."""
    return ", ".join(
        f"{counted(number, 'policy', 'policies') if at == 0 else number} {what}"
        for at, (what, number) in enumerate(changes.counts)
    )


def object_lines(changes: ObjectChanges, limit: int | None) -> list[str]:
    """The changed policies, a line each: `removed team-20/api`; the last line counts the rest."""
    lines = [f"removed {policy.title} ({policy.origin.span})" for policy in changes.removed]
    lines += [f"added {policy.title} ({policy.origin.span})" for policy in changes.added]
    for what, pairs in (("changed", changes.changed), ("reordered", changes.reordered)):
        lines += [f"{what} {after.title} ({after.origin.span})" for _, after in pairs]
    for before, after in changes.renamed:
        lines.append(f"renamed {before.title} to {after.title} ({after.origin.span})")
    return clipped_lines(lines, limit, "policy", "policies")


def clipped_lines(lines: Sequence[str], limit: int | None, one: str, many: str) -> list[str]:
    """The first lines, and one that counts the rest; None: all of them."""
    if limit is None or len(lines) <= limit:
        return list(lines)
    return [*lines[:limit], f"and {counted(len(lines) - limit, f'more {one}', f'more {many}')}"]


def config_notes(config: ConfigUsed | None) -> list[str]:
    """The effect of a configuration on a report, in one sentence."""
    if config is None:
        return []
    said = ", ".join(f"{code} to {severity}" for code, severity in config.severities)
    hidden = ", ".join(f"{counted(n, 'finding')} of {code}" for code, n in config.hidden)
    note = f"{config.file} sets {said}" if said else f"{config.file} sets no severities"
    return [f"{note}; it hides {hidden}" if hidden else note]


def left_out_words(
    counts: Counts,
    shown: Sequence[Difference],
    did: Mapping[DifferenceKind, str] = DID,
) -> str:
    """The omitted regions, in one line; empty if all are shown."""
    words = counts_words(left_out(counts, shown), did)
    if words:
        return f"not shown: {words}"
    is_complete = all(each.is_complete for each in counts)
    return "" if is_complete else "there may be more regions than were counted"


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


def findings_by_kind(result: CheckResult) -> list[str]:
    """The number of findings of each kind, the most severe and most frequent first."""
    order = tuple(Severity)
    titles = {rule.code: rule.title for rule in result.rules}
    counts = Counter((each.severity, each.code) for each in result.findings)
    by_weight = sorted(counts.items(), key=lambda each: (order.index(each[0][0]), -each[1]))
    return [
        f"{counted(number, severity.value)} {code}{_titled(titles.get(code, ''))}"
        for (severity, code), number in by_weight
    ]


def _titled(title: str) -> str:
    return title and f": {title[:1].lower()}{title[1:]}"


def verify_headline(result: VerifyResult) -> str:
    """The number of intents that hold, and the results of the others."""
    by = {status: sum(each.status is status for each in result.intents) for status in IntentStatus}
    parts = [f"{number} {status.value}" for status, number in by.items() if number]
    return (
        f"{counted(len(result.intents), 'intent')}: {', '.join(parts)}" if parts else "no intents"
    )
