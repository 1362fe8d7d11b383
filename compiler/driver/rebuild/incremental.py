# SPDX-License-Identifier: Apache-2.0
"""Incremental build of `policyc compile --cache`: only the parts that changed policies affect.

If the changed documents read no selector, block or named port that no policy read before, rows and
columns stay. Then only the changed policies are read. Only the rows that they select are decided and
proved (with the other policies that select those rows). Everything else, findings about documents
included, is copied from the record of an earlier run. In all other cases the full build runs. Both write
the same bytes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from policyc.backends.ebpf_c.emit import Columns, c_of
from policyc.backends.ebpf_c.layout import lay_out
from policyc.backends.ebpf_c.seeds import seeds_of
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.cache.proof_ledger import open_ledger
from policyc.compiler.driver.compile.bundle import (
    Provenance,
    check_target,
    proof_json,
    write_bundle,
)
from policyc.compiler.driver.compile.emission import Emitted, connect_seeds
from policyc.compiler.driver.compile.inputs import (
    Inputs,
    context_of,
)
from policyc.compiler.driver.compile.last_run import record_key
from policyc.compiler.driver.compile.policy_texts import POLICIES_FILE
from policyc.compiler.driver.compile.target import Target
from policyc.compiler.driver.rebuild.changes import Input, input_of, read_again
from policyc.compiler.driver.rebuild.facts import PolicyFacts, facts_of
from policyc.compiler.driver.rebuild.findings import (
    Said,
    in_order,
    said_from,
)
from policyc.compiler.driver.rebuild.policies import Policies
from policyc.compiler.driver.rebuild.reading import (
    is_known,
    reads_as_before,
    reads_namespace_labels,
    reads_the_same,
)
from policyc.compiler.driver.rebuild.record import Record, from_bytes
from policyc.compiler.driver.rebuild.rows import (
    Affected,
    Anew,
    affected,
    defaults_of,
    numbering_of,
    put_together,
)
from policyc.compiler.driver.rebuild.texts import Texts
from policyc.compiler.frontend.garbage_collection import (
    collector_paused,
    left_to_the_collector,
)
from policyc.ir.atoms import Atoms
from policyc.ir.bits import members, union
from policyc.ir.decide import decide
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InternalError
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.plan import FIRST_ROW
from policyc.ir.policy import Action, Direction, Policy, PolicySet, Tier, TierMode
from policyc.ir.services import Kind
from policyc.verifier.decision.outcome import Proved
from policyc.verifier.decision.row_equivalence import (
    is_all_that_matters,
    prove_rows,
)

PROFILE = "kubernetes"


@dataclass(frozen=True)
class Rebuilt:
    """The result of an incremental build. `rows_anew` of the rows were decided and proved in it.

    `findings` are those that a full build would have made.
    """

    findings: tuple[Diagnostic, ...]
    passed_over: Counter[str]
    cluster_objects: Counter[str]
    has_cluster: bool
    policies: int
    endpoints: int
    rules: int
    rows: int
    rows_anew: int
    columns: int
    diagrams: int
    obligations: int


@dataclass(frozen=True)
class _Changed:
    """The current facts of all policies, and the decision on the rows that changed."""

    facts: Policies
    anew: Anew
    obligations: int
    findings: tuple[Diagnostic, ...]


def rebuild(inputs: Inputs, out: Path, cache: BuildCache, target: Target) -> Rebuilt | None:
    """Write the bundle if an earlier run left a sufficient record; None if not.

    `cache` is filled and trimmed, and left open.
    """
    with collector_paused():
        data = cache.get(record_key(inputs, target))
        if data is None:
            return None
        record = from_bytes(data)
        given = input_of(record, inputs.policies, inputs.cluster)
        if given is None:
            return None
        check_target(out)
        changed = _changed(record, given, inputs, cache)
        if changed is None:
            return None
        target.require()
        left_to_the_collector(record, given, changed)
        return _write(record, given, changed, out, cache, target)


def _changed(record: Record, given: Input, inputs: Inputs, cache: BuildCache) -> _Changed | None:
    vocabulary = record.partition.vocabulary
    changed = read_again(given, given.changed, inputs.options)
    if changed is None:
        return None
    policies = changed.policies
    for at, policy in policies.items():
        before = record.policies[at]
        if (policy.namespace, policy.name) != (before.namespace, before.name):
            return None
        if not is_known(policy, vocabulary):
            return None
        if record.values["misses_namespaces"] and reads_namespace_labels(policy):
            return None
    subjects = {at: vocabulary.bit_of[policy.subject] for at, policy in policies.items()}
    wanted = affected(record, subjects)
    others = read_again(given, set(wanted.policies) - given.changed, inputs.options)
    if others is None:
        return None
    policies = policies | others.policies
    tier = _tier(record, [policies[at] for at in wanted.policies])
    anew = _decided(record, wanted, tier)
    ledger = open_ledger(cache, context_of(inputs))
    proof = prove_rows(PolicySet((tier,)), anew.decision, ledger)
    ledger.close()
    if not isinstance(proof, Proved):
        return None  # the full build reports the mistakes
    facts = _facts(record, given, anew, policies)
    then, now = record.policies.subjects, facts.subjects
    chosen = wanted.rows, wanted.policies
    if not is_all_that_matters(record.partition.rows, then, now, given.changed, chosen):
        raise InternalError("a row or policy that a change matters to was left out")
    is_known_to_be = reads_as_before(facts, record.policies)
    if not is_known_to_be and not reads_the_same(facts, vocabulary, record.frames):
        return None
    findings = _said(record, given, {**others.said, **changed.said}, policies)
    return _Changed(facts, anew, proof.obligations, findings)


def _said(
    record: Record, given: Input, said: Said, policies: Mapping[int, Policy]
) -> tuple[Diagnostic, ...]:
    """The findings about all documents: new ones of those read, recorded ones of the others."""
    before = record.values["said"]
    kept = {owner: each for owner, each in before.items() if int(owner) not in policies}
    files = {int(owner): record.policies[int(owner)].place.file for owner in kept}
    return tuple(in_order({**said_from(kept, files, given.moved), **said}))


def _tier(record: Record, policies: Sequence[Policy]) -> Tier:
    name, mode, unmatched = record.values["tier"]
    return Tier(name, TierMode(mode), Action(unmatched), tuple(policies))


def _decided(record: Record, wanted: Affected, tier: Tier) -> Anew:
    """The decision on the affected rows."""
    whole = record.partition
    rows = tuple(whole.rows[at] for at in wanted.rows)
    some = Atoms(whole.classifier, rows, whole.columns, {})
    return Anew(decide(PolicySet((tier,)), some), wanted)


def _facts(record: Record, given: Input, anew: Anew, policies: dict[int, Policy]) -> Policies:
    """The current facts of every policy."""
    facts: dict[int, PolicyFacts] = {}
    for at, lines in given.moved.items():
        before = record.policies[at]
        place = before.place
        facts[at] = before._replace(place=place._replace(line=place.line + lines))
    (table,) = anew.decision.tables
    for at, its_table in zip(anew.affected.policies, table.policies, strict=True):
        if at in given.changed:
            rules = [rule.rule for d in Direction for rule in its_table.rules(d)]
            entries = [anew.decision.rules[rule] for rule in rules]
            vocabulary = anew.decision.atoms.vocabulary
            facts[at] = facts_of(policies[at], table, its_table, entries, vocabulary)
    return record.policies.with_changes(facts)


def _write(
    record: Record, given: Input, changed: _Changed, out: Path, cache: BuildCache, target: Target
) -> Rebuilt:
    facts, anew = changed.facts, changed.anew
    numbering = numbering_of(facts, defaults_of(record, facts))
    texts = Texts(record, facts, numbering)
    verdicts = put_together(record, facts, numbering, anew, texts.rules)
    distinguished = union(set(facts.distinguished))
    frames = replace(record.frames, distinguished=frozenset(map(Kind, members(distinguished))))
    layout = lay_out(frames, verdicts, counters=target.counters)
    values = record.values
    classes = {Direction(d): lines for d, lines in values["classes"].items()}
    emitted = Emitted(
        layout,
        c_of(
            *(verdicts, layout.plan, classes, _columns_in_words(record, anew)),
            at_sockets=target.at_sockets,
        ),
        (*seeds_of(verdicts, layout.plan, record.address_seeds), *connect_seeds(target)),
        target,
    )
    files = texts.files
    provenance = _provenance(values, given, files.pop(POLICIES_FILE))
    left_to_the_collector(verdicts, emitted, provenance, files, texts)
    write_bundle(out, files, emitted, provenance, cache)
    cache.trim()
    return Rebuilt(
        (*changed.findings, *cache.findings),
        Counter(values["passed_over"]),
        Counter(values["cluster_objects"]),
        values["cluster"] is not None,
        len(facts),
        values["endpoints"],
        numbering.count,
        len(record.partition.rows),
        len(anew.affected.rows),
        len(record.partition.columns),
        len(verdicts.diagrams),
        changed.obligations,
    )


def _columns_in_words(record: Record, anew: Anew) -> Columns:
    """The comments' text about the columns of unchanged rows."""
    found = {}
    for name, rows in record.values["columns_in_words"].items():
        row_ids = record.frames.directions[Direction(name)].row_ids
        decided = {row_ids[at] for at in anew.affected.rows}
        known = enumerate(rows, start=FIRST_ROW)
        found[Direction(name)] = {row: said for row, said in known if row not in decided}
    return found


def _provenance(values: Any, given: Input, policies: bytes) -> Provenance:
    inputs = [(file.path, file.sha256) for file in given.inputs]
    inputs += [(path, sha256) for path, sha256 in values["cluster"] or ()]
    return Provenance(
        inputs=tuple(inputs),
        options=values["options"],
        proof=proof_json(values["options"]["universe"]),
        policies=policies,
        profile=PROFILE,
    )
