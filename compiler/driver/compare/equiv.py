# SPDX-License-Identifier: Apache-2.0
"""Equiv: two sides proved equal, goal by goal, with a certificate; or checked against a certificate.

A certificate's stored answers are not trusted. Its statement is read, the goals are derived again from
the inputs, and solved again, by the other solver if the statement names one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import z3

from policyc.compiler.driver.codes import BAD_CERTIFICATE
from policyc.compiler.driver.compare.diff import (
    FEW_ENDS,
    FEW_POLICIES,
    GROUPED,
    SAME,
    WHOLE,
    DiffOptions,
    change_of,
    diff_sides,
    universe_of,
)
from policyc.compiler.driver.compare.diff_opaque import (
    cases_of,
    opaque_parts,
    with_policies,
)
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.frontend.garbage_collection import collector_relaxed
from policyc.ir.bounds import is_understood
from policyc.ir.errors import InputError, InternalError
from policyc.ir.results.certificate import (
    Certificate,
    Equivalence,
    InputDigest,
    Obligation,
    Settings,
)
from policyc.ir.results.common import UniverseUsed
from policyc.ir.results.diff import DifferenceKind, DiffOutcome
from policyc.ir.spans import Span
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.cluster.diff import Change, diff_cluster
from policyc.verifier.cluster.partition import partition_goals
from policyc.verifier.diff.difference_terms import is_kind
from policyc.verifier.diff.symbolic import end_queries
from policyc.verifier.smt.smt_text import digest_of
from policyc.verifier.smt.solvers import (
    Answer,
    Choice,
    decide,
    versions_of,
)
from policyc.verifier.smt.terms import Term

SCHEMA = "policyc.dev/certificate/v2"
_FORMER = "policyc.dev/certificate/v1"
"""Its settings are text: `True`, `False`, and CIDRs with blanks between them."""
_BY_ATOMS = "partition checked by queries, exhaustive comparison of atoms"
_ATOMS = "exhaustive comparison of atoms"


@dataclass(frozen=True, slots=True)
class Statement:
    """The statement of an earlier certificate, as far as it is read; none of it is trusted."""

    settings: Settings
    inputs: Sequence[tuple[str, str]]
    """(side, SHA-256) of every input, sorted."""
    digests: Sequence[str]
    solvers: Sequence[str]
    result: str


def read_statement(path: str) -> Statement:
    """The statement of a certificate file; InputError if it is not one."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        schema = found.get("schema")
        if schema not in (SCHEMA, _FORMER):
            said = f"its schema is {schema}" if schema else "it has no schema"
            raise ValueError(f"{said}, and that of a certificate is {SCHEMA}")
        return Statement(
            _settings_of(found["settings"], is_text=schema == _FORMER),
            sorted((str(i["side"]), str(i["sha256"])) for i in found["inputs"]),
            sorted(str(o["digest"]) for o in found["obligations"]),
            [str(s["name"]) for s in found["evidence"]["solvers"]],
            str(found["result"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        reason = _why_none(failure)
        found_fault = BAD_CERTIFICATE.at(Span(path, 0, 0), reason=reason)
        raise InputError(
            [found_fault.help("write one: policyc equiv A B --format json -o CERT")]
        ) from failure


def _settings_of(found: Mapping[str, Any], is_text: bool) -> Settings:
    """The settings of a certificate; TypeError or KeyError where they are none."""
    if is_text:
        found = {
            **found,
            "ignore_effects": found["ignore_effects"] == "True",
            "audit": found["audit"] == "True",
            "pod_cidrs": found["pod_cidrs"].split(),
        }
    settings = Settings(**{**found, "pod_cidrs": tuple(found["pod_cidrs"])})
    is_typed = isinstance(settings.ignore_effects, bool) and isinstance(settings.audit, bool)
    if not is_typed or settings.universe not in ("cluster", "symbolic"):
        raise TypeError("settings of another kind")
    return settings


def _why_none(failure: Exception) -> str:
    match failure:
        case OSError():
            return failure.strerror or str(failure)
        case json.JSONDecodeError():
            return f"it is not JSON: {failure}"
        case UnicodeDecodeError():
            return "it is not UTF-8"
        case KeyError():
            return f"it has no `{failure.args[0]}`"
        case TypeError() | AttributeError():
            return "it lacks fields of a certificate"
    return str(failure)


def options_of(statement: Statement, given: DiffOptions, solver: Choice | None) -> DiffOptions:
    """The settings of a statement, with the other solver, unless the user chose one."""
    said = statement.settings
    others = {"z3": Choice.BITWUZLA, "bitwuzla": Choice.Z3}
    other = (
        others.get(statement.solvers[0], Choice.BOTH)
        if len(statement.solvers) == 1
        else Choice.BOTH
    )
    return replace(
        given,
        is_symbolic=said.universe == "symbolic",
        ignore_effects=said.ignore_effects,
        audit=said.audit,
        solver=solver or other,
    )


@collector_relaxed()
def equiv_sides(old: Read, new: Read, options: DiffOptions, names: tuple[str, str]) -> Certificate:
    """The certificate; if the sides differ, with the differences."""
    sides = old.policies.policies, new.policies.policies
    if all(map(is_understood, sides)):
        return _with_differences(_proved(old, new, options, names), old, new, options)
    cases = cases_of(old, new).possible
    proofs: list[Certificate] = []
    for case in cases:
        read = with_policies(old, case.before), with_policies(new, case.after)
        proofs.append(_proved(*read, options, names))
        if proofs[-1].result is not Equivalence.EQUAL:
            break
    certificate = replace(
        next((each for each in proofs if each.obligations), proofs[0]),
        result=proofs[-1].result,
        obligations=tuple(_obligations(proofs, len(cases))),
        undecided=proofs[-1].undecided,
        opaque=opaque_parts(*sides),
    )
    return _with_differences(certificate, old, new, options)


def _obligations(proofs: Sequence[Certificate], n_cases: int) -> Iterator[Obligation]:
    """The obligations of every reading of the opaque rules."""
    for number, proof in enumerate(proofs, start=1):
        for each in proof.obligations:
            what = f"reading {number} of {n_cases}: {each.what}" if n_cases > 1 else each.what
            yield replace(each, what=what)


def _proved(old: Read, new: Read, options: DiffOptions, names: tuple[str, str]) -> Certificate:
    """Every goal solved, until one shows that the sides differ. No rule is opaque."""
    goals = _symbolic(old, new, options) if options.is_symbolic else _cluster(old, new, options)
    method, universe, queue = goals
    obligations: list[Obligation] = []
    result, why = Equivalence.EQUAL, ""
    for what, goal in queue:
        decision = decide(goal, options.solver, options.timeout_ms)
        digest = digest_of(goal)
        answers = tuple((a.solver, a.version, a.answer.value) for a in decision.answers)
        obligations.append(Obligation(what, digest, answers))
        if decision.answer is Answer.SAT:
            result = Equivalence.DIFFERENT
            break
        if decision.answer is Answer.UNKNOWN:
            result, why = Equivalence.UNDECIDED, f"{what}: {decision.reason}"
    solvers = versions_of(options.solver) if obligations else ()
    if not obligations:
        method = SAME if options.is_symbolic else _ATOMS
    return Certificate(
        result, *names, universe, method, _settings(old, new, options), tuple(_inputs(old, new)),
        tuple(obligations), solvers, undecided=why)  # fmt: skip


def _with_differences(
    certificate: Certificate, old: Read, new: Read, options: DiffOptions
) -> Certificate:
    """A cluster's comparison by atoms is a goal of its own; the differences are shown."""
    if certificate.result is Equivalence.UNDECIDED:
        return certificate
    if certificate.result is Equivalence.EQUAL and (
        options.is_symbolic or certificate.method == WHOLE
    ):
        return certificate
    found = diff_sides(old, new, options, lambda _: None)
    if not (found.differences or found.possible) and found.outcome is DiffOutcome.EQUAL:
        if certificate.result is Equivalence.DIFFERENT:
            raise InternalError("the sides differ, but no example flow was found")
        return certificate
    is_open = not found.differences or found.outcome is DiffOutcome.UNDECIDED
    return replace(
        certificate,
        result=Equivalence.UNDECIDED if is_open else Equivalence.DIFFERENT,
        differences=found.differences,
        possible=found.possible,
        counts=found.counts,
        undecided=found.undecided,
    )


Goals = tuple[str, UniverseUsed, Iterator[tuple[str, list[Term]]]]


def _symbolic(old: Read, new: Read, options: DiffOptions) -> Goals:
    def goals() -> Iterator[tuple[str, list[Term]]]:
        sets = (old.policies.policies, new.policies.policies)
        for group, query in end_queries(*sets, options.ignore_effects, options.pod_networks):
            end = "host" if query.is_host else "pod"
            yield f"{group.label}: {query.direction.value} at a {end}", query.assertions()

    words = "every pod, node and address that could exist"
    return GROUPED, UniverseUsed("symbolic", words), goals()


def _cluster(old: Read, new: Read, options: DiffOptions) -> Goals:
    before, after = (change_of(read, options) for read in (old, new))
    universe = universe_of(before.universe, after.universe)
    n_policies = sum(len(t.policies) for c in (before, after) for t in c.policies.tiers)
    is_small = len(before.universe.endpoints) <= FEW_ENDS and n_policies <= FEW_POLICIES
    if before.universe is after.universe and (is_small or options.audit):
        return WHOLE, universe, iter([("the whole cluster", _whole(before, after, options))])
    space = diff_cluster(before, after, ignore_effects=options.ignore_effects, limit=0).space
    return _BY_ATOMS, universe, partition_goals(space, (before.policies, after.policies))


def _whole(before: Change, after: Change, options: DiffOptions) -> list[Term]:
    sets = (before.policies, after.policies)
    connection = ClusterConnection(sets, before.universe, (), before.networks)
    changes = [is_kind(connection, kind, options.ignore_effects) for kind in DifferenceKind]
    return [connection.is_possible(), z3.Or(*changes)]


def _settings(old: Read, new: Read, options: DiffOptions) -> Settings:
    return Settings(
        universe="symbolic" if options.is_symbolic else "cluster",
        ignore_effects=options.ignore_effects,
        audit=options.audit,
        pod_cidrs=tuple(map(str, options.pod_networks)),
        profile_a=old.policies.profile.value,
        profile_b=new.policies.profile.value,
    )


def _inputs(old: Read, new: Read) -> Iterator[InputDigest]:
    for side, read in (("A", old), ("B", new)):
        yield from (InputDigest(side, f.path, f.sha256) for f in read.policies.inputs)
    clusters = {id(r.cluster): r.cluster for r in (old, new) if r.cluster is not None}
    for cluster in clusters.values():
        yield from (InputDigest("cluster", f.path, f.sha256) for f in cluster.inputs)


def checked(certificate: Certificate, statement: Statement) -> Certificate:
    """The certificate derived again, with the parts of the statement that were not confirmed."""
    faults = []
    if sorted((i.side, i.sha256) for i in certificate.inputs) != list(statement.inputs):
        faults.append("the inputs differ from those of the certificate")
    if certificate.settings != statement.settings:
        faults.append("the settings differ from those of the certificate")
    if sorted(o.digest for o in certificate.obligations) != list(statement.digests):
        faults.append("the goals derived from the inputs differ from those of the certificate")
    if certificate.result.value != statement.result:
        faults.append(
            f"the certificate says {statement.result}, the solvers {certificate.result.value}"
        )
    count = len(certificate.obligations)
    shown = "no goal to solve: no policy differs"
    if count:
        solvers = ", ".join(name for name, _ in certificate.solvers)
        shown = f"{count} goals derived again and solved by {solvers}"
    return replace(certificate, checked=shown, faults=tuple(faults))


def exit_code_of(certificate: Certificate) -> int:
    """0 equal and nothing wrong with a certificate given; 1 different or not as stated; 3 undecided."""
    if certificate.result is Equivalence.UNDECIDED:
        return 3
    return int(certificate.result is Equivalence.DIFFERENT or bool(certificate.faults))
