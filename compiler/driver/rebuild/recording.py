# SPDX-License-Identifier: Apache-2.0
"""Make the record of a run that read, decided, proved and emitted everything.

None if the run has something that the incremental build does not support, such as policies of other
kinds.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from policyc.backends.ebpf_c.comments import MAX_LINES, MAX_ROWS, columns_in_words
from policyc.backends.ebpf_c.emit import classes_in_words
from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.compile.bundle import (
    CLASSIFIER_FILE,
    RULES_FILE,
)
from policyc.compiler.driver.compile.compile import Prepared
from policyc.compiler.driver.compile.emission import Emitted
from policyc.compiler.driver.compile.inputs import options_json
from policyc.compiler.driver.compile.json_lines import (
    joined_members,
    list_text,
    member_text,
)
from policyc.compiler.driver.compile.last_run import record_key
from policyc.compiler.driver.compile.node_tables import (
    RULES_SCHEMA,
    classifier_json,
    rule_json,
)
from policyc.compiler.driver.compile.pipeline import Decided
from policyc.compiler.driver.compile.policy_texts import (
    POLICIES_FILE,
    TierText,
    policies_text,
)
from policyc.compiler.driver.rebuild.changes import Input
from policyc.compiler.driver.rebuild.documents import KnownDocument, documents_of
from policyc.compiler.driver.rebuild.facts import SEPARATOR, PolicyFacts, facts_of
from policyc.compiler.driver.rebuild.files import contents_again
from policyc.compiler.driver.rebuild.findings import (
    said_json,
    said_of_documents,
)
from policyc.compiler.driver.rebuild.partition import partition_json
from policyc.compiler.driver.rebuild.policies import policies_json
from policyc.compiler.driver.rebuild.record import Record, to_bytes
from policyc.compiler.driver.rebuild.shapes import (
    Blobs,
    diagrams_json,
    documents_json,
    file_json,
    frames_json,
    seeds_json,
    table_json,
    texts_json,
)
from policyc.compiler.driver.rebuild.splicing import (
    HERE,
    FileOfPolicies,
    file_of,
)
from policyc.compiler.frontend.cluster.universe import Cluster
from policyc.compiler.frontend.lowered import Profile
from policyc.compiler.frontend.read import PolicyInput
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import (
    Content,
    Source,
)
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.policy import NETWORK_POLICY, Action, Direction, PolicySet
from policyc.ir.tables import RESERVED_RULES


def keep_record(ready: Prepared, emitted: Emitted, cache: BuildCache) -> None:
    """Store a record for the next run; it replaces the entry of the run before."""
    read = ready.read
    sources = (ready.inputs.policies, ready.inputs.cluster)
    options = options_json(ready.inputs)
    how = ready.inputs.options, ready.findings
    record = note(sources, read.policies, read.cluster, ready.decided, emitted, options, how)
    if record is not None:
        cache.put(record_key(ready.inputs, emitted.target), to_bytes(record))


def note(
    sources: tuple[Sequence[Source], Sequence[Source]],
    given: PolicyInput,
    cluster: Cluster | None,
    decided: Decided,
    emitted: Emitted,
    options: dict[str, Any],
    how: tuple[ReadOptions, Sequence[Diagnostic]],
) -> Record | None:
    """The record of a run; `sources` are those of policies and of the cluster.

    `how` are the options of reading, and all findings.
    """
    blobs: Blobs = []
    partition = partition_json(decided.atoms, blobs)
    if partition is None or how[0].selection or not _is_plain(given, decided.policies):
        return None
    files = [contents_again(each) for each in sources]
    inputs = [given.inputs, cluster.inputs if cluster else ()]
    for some, known in zip(files, inputs, strict=True):
        if some is None or [content.input_file for content in some] != list(known):
            return None  # they changed meanwhile
    if cluster is not None and cluster.has_policies:
        return None  # they must be those given, which a full reading checks
    facts = tuple(_facts(decided))
    documents = [_documents(content, facts) for content in files[0] or ()]
    owners = [owner for file in documents for *_, owner in file or () if owner >= 0]
    if not facts or sorted(owners) != list(range(len(facts))):
        return None  # several in one document, or none at all
    ours = [[owner for *_, owner in file or ()] for file in documents]
    said = said_of_documents(Input(files[0] or (), given.inputs, ours), how[1], how[0])
    if said is None:
        return None
    layout, plan = emitted.layout, emitted.plan
    tier = decided.policies.tiers[0]
    values = {
        "inputs": [[file.path, file.sha256] for file in given.inputs],
        "cluster": [[file.path, file.sha256] for file in cluster.inputs] if cluster else None,
        "documents": [None if d is None else documents_json(d, blobs) for d in documents],
        "passed_over": given.passed_over + (cluster.passed_over if cluster else Counter()),
        "cluster_objects": given.cluster_objects,
        "options": options,
        "said": said_json(said),
        "endpoints": len(decided.atoms.row_of),
        "misses_namespaces": _misses_namespaces(cluster),
        "tier": [tier.name, tier.mode.value, tier.unmatched.value],
        "policies": policies_json(facts, blobs),
        "files": {n: file_json(f, blobs) for n, f in _files(given, decided, facts).items()},
        "partition": partition,
        "frames": frames_json(layout.frames, blobs),
        "address_seeds": _address_seeds(emitted, blobs),
        "rules_in_words": list(layout.verdicts.rules[:MAX_LINES]),
        "columns_in_words": {
            d.value: [columns_in_words(t.rows[at]) for at in t.of_row[:MAX_ROWS]]
            for d, t in layout.verdicts.tables.items()
        },
        "classes": {d.value: c for d, c in classes_in_words(decided.decision, plan).items()},
        "diagrams": diagrams_json(layout.verdicts.diagrams, blobs),
        "tables": {d.value: table_json(t, blobs) for d, t in layout.verdicts.tables.items()},
        "defaults": list(_defaults(decided)),
        "default_texts": texts_json(
            [
                member_text(rule_json(rule, entry))
                for rule, entry in enumerate(decided.decision.rules)
                if entry.kind == "default-deny"
            ],
            blobs,
        ),
    }
    return Record(values, blobs)


def _is_plain(given: PolicyInput, policies: PolicySet) -> bool:
    """Only NetworkPolicies, in the one tier that they have in Kubernetes' own profile."""
    if given.profile is not Profile.KUBERNETES or given.found or given.staged:
        return False
    if len(policies.tiers) != 1 or policies.tiers[0].unmatched is not Action.DENY:
        return False
    return all(
        policy.kind == NETWORK_POLICY
        and all(r.action is Action.ALLOW for d in Direction for r in policy.rules(d))
        for policy in policies.tiers[0].policies
    )


def _facts(decided: Decided) -> Iterator[PolicyFacts]:
    decision = decided.decision
    (tier,) = decided.policies.tiers
    (table,) = decision.tables
    for policy, its_table in zip(tier.policies, table.policies, strict=True):
        rules = [rule.rule for d in Direction for rule in its_table.rules(d)]
        assert all(low + 1 == high for low, high in pairwise(rules))
        entries = [decision.rules[rule] for rule in rules]
        yield facts_of(policy, table, its_table, entries, decided.atoms.vocabulary)


def _files(
    given: PolicyInput, decided: Decided, facts: Sequence[PolicyFacts]
) -> dict[str, FileOfPolicies]:
    """The files with a part for each policy, as the full build writes them."""
    (tier,) = decided.policies.tiers
    name, mode, unmatched = map(member_text, (tier.name, tier.mode.value, tier.unmatched.value))
    classifier = classifier_json(replace(decided.decision, tables=()))
    members = {name: member_text(value) for name, value in classifier.items()}
    table = f'{{"mode":{mode},"name":{name},"policies":[{HERE}],"unmatched":{unmatched}}}'
    reserved = [member_text(rule_json(at, entry)) for at, entry in enumerate(RESERVED_RULES)]
    rules = {"schema": member_text(RULES_SCHEMA), "rules": list_text([*reserved, HERE])}
    item = TierText(tier.name, tier.mode, tier.unmatched, [HERE])
    texts = [each.texts for each in facts if each.texts is not None]
    return {
        CLASSIFIER_FILE: file_of(
            joined_members({**members, "tiers": list_text([table])}),
            [each.table for each in texts],
            ",",
        ),
        RULES_FILE: file_of(joined_members(rules), [each.entries for each in texts], SEPARATOR),
        POLICIES_FILE: file_of(
            policies_text(given.profile.value, [item], [], []),
            [each.item for each in texts],
            SEPARATOR,
        ),
    }


def _documents(content: Content, facts: Sequence[PolicyFacts]) -> list[KnownDocument] | None:
    """The documents of a file; None if only a parser could split it."""
    documents = documents_of(content.data)
    if documents is None:
        return None
    lines = {
        fact.place.line: at for at, fact in enumerate(facts) if fact.place.file == content.name
    }
    found = []
    for document, digest in zip(documents, documents.digests(), strict=True):
        held = range(document.line, document.line + document.text.count(b"\n") + 1)
        owners = [lines.pop(line) for line in held if line in lines]
        owner = owners[0] if len(owners) == 1 else -1
        found.append((digest, document.line, owner))
    return found


def _misses_namespaces(cluster: Cluster | None) -> bool:
    """Whether pods are in namespaces without objects: rules that read their labels get a warning."""
    if cluster is None:
        return False
    known = {namespace.metadata.name for namespace in cluster.namespaces}
    return any(endpoint.namespace not in known for endpoint in cluster.universe.endpoints)


def _address_seeds(emitted: Emitted, blobs: Blobs) -> dict[str, Any]:
    found = {}
    for direction in emitted.plan.used_directions:
        names = {f"pc_{kind}{f}_{direction.short}" for kind in ("cidr", "root") for f in (4, 6)}
        seeds = [seed for seed in emitted.seeds if seed.map_name in names]
        found[direction.direction.value] = seeds_json(seeds, blobs)
    return found


def _defaults(decided: Decided) -> Iterator[tuple[str, list[int]]]:
    (tier,) = decided.policies.tiers
    places = {policy.title: at for at, policy in enumerate(tier.policies)}
    for entry in decided.decision.rules:
        if entry.kind == "default-deny" and entry.direction is not None:
            yield entry.direction.value, [places[name] for name in entry.policies]
