# SPDX-License-Identifier: Apache-2.0
"""Compile: read policies and cluster, decide, prove, emit, write."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from policyc.compiler.driver.cache.build_cache import BuildCache
from policyc.compiler.driver.cache.proof_ledger import open_ledger
from policyc.compiler.driver.compile.bundle import (
    Provenance,
    Prover,
    check_target,
    node_texts,
    proof_json,
    write_bundle,
)
from policyc.compiler.driver.compile.bundle_policies import policies_json
from policyc.compiler.driver.compile.emission import (
    Emitted,
    emit_all,
)
from policyc.compiler.driver.compile.enforced import enforced
from policyc.compiler.driver.compile.host_subjects import (
    HOSTS_FILE,
    NO_HOSTS,
    Hosts,
    hosts_of,
)
from policyc.compiler.driver.compile.inputs import (
    Inputs,
    context_of,
    options_json,
)
from policyc.compiler.driver.compile.node_subjects import check_node
from policyc.compiler.driver.compile.pipeline import (
    Decided,
    decide_all,
)
from policyc.compiler.driver.compile.target import (
    DEFAULT_TARGET,
    Target,
)
from policyc.compiler.frontend.cluster.universe import Cluster
from policyc.compiler.frontend.found import NOTHING
from policyc.compiler.frontend.garbage_collection import (
    collector_paused,
    collector_relaxed,
)
from policyc.compiler.frontend.read import (
    ClusterReading,
    Known,
    PolicyInput,
    read_policies,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError, InternalError
from policyc.ir.plan import Counters
from policyc.ir.policy import PolicySet
from policyc.ir.restrict import local_subjects
from policyc.ir.spans import Span
from policyc.verifier.decision.equivalence import prove_decision
from policyc.verifier.decision.outcome import (
    Broken,
    Ledger,
    Proved,
    Refuted,
    Undecided,
)
from policyc.verifier.decision.witness import find_witness
from policyc.verifier.smt.solver_choice import Choice

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Read:
    """Policies and, if given, the cluster."""

    policies: PolicyInput
    cluster: Cluster | None

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        """The findings that did not stop the run."""
        return (*self.policies.findings, *(self.cluster.findings if self.cluster else ()))

    @property
    def passed_over(self) -> Counter[str]:
        """Objects of other kinds, by kind."""
        return self.policies.passed_over + (
            self.cluster.passed_over if self.cluster else Counter[str]()
        )


@collector_paused()
def read_inputs(inputs: Inputs) -> Read:
    """Read everything; InputError carries the findings of policies and cluster together."""
    findings: list[Diagnostic] = []
    policies: PolicyInput | None = None
    cluster: Cluster | None = None
    reading = ClusterReading(inputs.cluster, inputs.options) if inputs.cluster else None
    try:
        services = reading.services if reading else ()
        known = reading.known if reading else Known()
        policies = read_policies(inputs.policies, inputs.options, services, known)
    except InputError as failure:
        findings += failure.findings
    if reading is not None:
        try:
            given = policies.policies if policies else PolicySet(())
            cluster = reading.finish(given, policies.found if policies else NOTHING)
        except InputError as failure:
            findings += failure.findings
    if findings or policies is None:
        raise InputError(findings)
    return Read(policies, cluster)


def decide_read(
    read: Read, policies: PolicySet | None = None, subjects: frozenset[str] | None = None
) -> Decided:
    """The decisions on the input; on other `policies`, for some `subjects`, if given."""
    universe = read.cluster.universe if read.cluster else None
    nodes = read.cluster.nodes if read.cluster else ()
    networks = tuple(network for node in nodes for network in node.pod_cidrs)
    return decide_all(policies or read.policies.policies, universe, networks, subjects)


def prove(
    decided: Decided, subjects: frozenset[str] | None = None, ledger: Ledger | None = None
) -> Proved:
    """Prove the Decision IR, or stop: InternalError carries the witness.

    `subjects` are those that have rows, None for all; `ledger` has the questions proved before.
    """
    outcome = prove_decision(decided.policies, decided.universe, decided.decision, subjects, ledger)
    match outcome:
        case Proved():
            return outcome
        case Undecided(reason):
            raise InternalError(f"the solver gave up on the Decision IR: {reason}")
        case Refuted(broken):
            shown = _witness(decided, broken)
            raise InternalError(
                f"the Decision IR differs from the Policy IR ({broken.lemma}: {broken.what}){shown}"
            )


def _witness(decided: Decided, broken: Broken) -> str:
    """The witness in words; if a Decision IR is too broken for a search, the fault must still show."""
    try:
        found = find_witness(decided.policies, decided.universe, decided.decision, broken)
    except (LookupError, ValueError, InternalError) as failure:
        return f"\nno witness: the search for one failed ({failure})"
    return f"\nwitness: {found}" if found else ""


def host_endpoints(read: Read) -> dict[str, Span]:
    """The names of the host endpoints from all inputs, with their places."""
    nodes = read.cluster.universe.nodes if read.cluster else ()
    found = {
        node.host.name: Span("--cluster", 0, 0)
        for node in nodes
        if node.host is not None and node.host.has_failsafes
    }
    return found | {host.name: host.span for host in read.policies.found.hosts}


@dataclass(frozen=True)
class Compiled:
    """The result of a compiler run. `findings` are all that did not stop it.

    `policies` are as in Prepared; `has_host_policy`: some node may be a subject itself.
    """

    read: Read
    findings: tuple[Diagnostic, ...]
    decided: Decided
    emitted: Emitted
    proof: Proved
    policies: PolicySet
    has_host_policy: bool


@dataclass(frozen=True)
class Prepared:
    """The input after reading, deciding and proving, before emission.

    `policies` are those that are enforced; `decided` has the nodes among their subjects as endpoints.
    """

    inputs: Inputs
    read: Read
    findings: tuple[Diagnostic, ...]
    decided: Decided
    proof: Proved
    policies: PolicySet
    hosts: Hosts = NO_HOSTS

    @property
    def texts(self) -> dict[str, str]:
        """The bundle's files about hosts, by name; nothing if no host is a subject."""
        return {HOSTS_FILE: self.hosts.to_text()} if self.hosts else {}


def prepare(
    inputs: Inputs,
    progress: Progress,
    cache: BuildCache | None = None,
    node: str = "",
    is_written: bool = True,
    target: Target = DEFAULT_TARGET,
) -> Prepared:
    """Read, decide and prove; for the subjects of `node` if it is given.

    `is_written`: the result will be compiled, so the compiler for `target` must be installed.
    """
    progress("reading")
    read = read_inputs(inputs)
    with collector_relaxed():
        return _prepared(inputs, read, progress, cache, node, is_written, target)


def _prepared(
    inputs: Inputs,
    read: Read,
    progress: Progress,
    cache: BuildCache | None,
    node: str,
    is_written: bool,
    target: Target,
) -> Prepared:
    subjects = None
    if node and read.cluster is not None:
        check_node(node, read.cluster.universe)
        subjects = local_subjects(read.cluster.universe, node)
    policies, warnings = enforced(
        read.policies.policies,
        inputs.options.unsupported,
        target.counters is not Counters.NONE,
    )
    if is_written:
        target.require()
    progress("deciding")
    hosts = hosts_of(read.policies.found.hosts, policies)
    decided = decide_read(read, hosts.lowering.run(policies, Report()), subjects)
    progress("proving")
    ledger = open_ledger(cache, context_of(inputs)) if cache else None
    proof = prove(decided, subjects, ledger)
    if ledger is not None:
        ledger.close()
    findings = (*read.findings, *warnings)
    return Prepared(inputs, read, findings, decided, proof, policies, hosts)


Keep = Callable[[Prepared, Emitted, BuildCache], None]
"""Leaves the record of a run in the cache (`rebuild/note.py`)."""


def compile_inputs(
    inputs: Inputs,
    out: Path | None,
    progress: Progress,
    cache: BuildCache | None = None,
    node: str = "",
    target: Target = DEFAULT_TARGET,
    proving: Choice | None = None,
    keep: Keep | None = None,
) -> Compiled:
    """Compile, and write the bundle if `out` is given. Nothing is written unless all succeeds.

    `node`: for the subjects of this node alone. `cache` is filled and trimmed, and left open. `proving`:
    the bytecode is proved, by these solvers. `keep` leaves a record for the next run in the cache.
    """
    if out is not None:
        check_target(out)
    ready = prepare(inputs, progress, cache, node, out is not None, target)
    progress("emitting")
    with collector_relaxed():
        emitted = emit_all(ready.decided.decision, target=target)
        if out is not None:
            texts = node_texts(ready.decided.decision) | ready.texts
            prover = None if proving is None else _prover(ready, proving, cache, progress)
            said = provenance(ready, node, proving is not None)
            write_bundle(out, texts, emitted, said, cache, prover)
            if keep is not None and cache is not None and not node and not ready.hosts:
                keep(ready, emitted, cache)
    findings = ready.findings
    if cache is not None:
        cache.trim()
        findings = (*findings, *cache.findings)
    has_host_policy = bool(ready.hosts)
    proof, policies = ready.proof, ready.policies
    return Compiled(ready.read, findings, ready.decided, emitted, proof, policies, has_host_policy)


def _prover(
    ready: Prepared, solver: Choice, cache: BuildCache | None, progress: Progress
) -> Prover:
    """The prover of the bundle's bytecode."""
    from policyc.compiler.driver.compile.proof_file import BundleProver

    progress("proving the bytecode")
    return BundleProver(ready.decided.decision, ready.inputs.universe, solver, cache)


def provenance(ready: Prepared, node: str = "", is_bytecode_proved: bool = False) -> Provenance:
    """The manifest's entries about the run; `node` is the node that a bundle is for."""
    read = ready.read
    files = [*read.policies.inputs, *(read.cluster.inputs if read.cluster else ())]
    return Provenance(
        inputs=tuple((file.path, file.sha256) for file in files),
        options=options_json(ready.inputs),
        policies=policies_json(read.policies, ready.policies),
        profile=read.policies.profile.value,
        proof=proof_json(ready.inputs.universe, is_bytecode_proved),
        node=node,
    )
