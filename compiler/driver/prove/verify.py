# SPDX-License-Identifier: Apache-2.0
"""Verify: read policies, cluster and intents, and decide each intent in a universe."""

from collections.abc import Sequence
from dataclasses import dataclass

from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
    read_inputs,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.driver.prove.verify_opaque import answers_however_read
from policyc.compiler.frontend.extended.intents import IntentText
from policyc.compiler.frontend.read_intents import IntentInput, read_intents
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import (
    PathSource,
    RenderedSource,
    Source,
    path_name,
)
from policyc.ir.bounds import is_understood, opaque_rules
from policyc.ir.counts import cluster_words
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.intents import Intent
from policyc.ir.peers import Network
from policyc.ir.policy import PolicySet
from policyc.ir.results.common import Evidence, UniverseUsed
from policyc.ir.results.opaque import part_of
from policyc.ir.results.verify import IntentAnswer, IntentStatus, VerifyResult
from policyc.ir.universe import Universe
from policyc.verifier.cluster.connection import ClusterConnection
from policyc.verifier.intents.intents import (
    DEFAULT_ASKING,
    Asking,
    Evidenced,
    verify_intents,
)
from policyc.verifier.symbolic.connection import Connection
from policyc.verifier.symbolic.connection_terms import ConnectionTerms

METHOD = "queries over both ends of a connection, every witness replayed"
NO_INTENTS = "no intent: no solver query"


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of a decision. `is_symbolic`: for every cluster, whatever cluster is given."""

    is_symbolic: bool
    pod_networks: tuple[Network, ...] = ()
    asking: Asking = DEFAULT_ASKING


@dataclass(frozen=True, slots=True)
class ToVerify:
    """The input: policies, perhaps a cluster, and the intents."""

    read: Read
    intents: IntentInput


def read_to_verify(inputs: Inputs, sources: Sequence[Source]) -> ToVerify:
    """The whole input, or InputError with the findings of all that was read.

    Intents beside the policies are decided as well; a file that is named twice is read once.
    """
    findings: list[Diagnostic] = []
    read: Read | None = None
    try:
        read = read_inputs(inputs)
    except InputError as failure:
        findings += failure.findings
    services = read.cluster.services if read is not None and read.cluster is not None else ()
    found = read.policies.found.intents if read is not None else ()
    intents: IntentInput | None = None
    try:
        given = _beside(found, sources)
        intents = read_intents(sources, inputs.options, services, given)
    except InputError as failure:
        known = set(findings)
        findings += [finding for finding in failure.findings if finding not in known]
    if findings or read is None or intents is None:
        raise InputError(findings)
    return ToVerify(read, intents)


def intents_beside(
    read: Read, sources: Sequence[Source], options: ReadOptions
) -> IntentInput | None:
    """The intents of the sources and of those beside policies; None if there is neither.

    Raises InputError.
    """
    given = _beside(read.policies.found.intents, sources)
    if not sources and not given:
        return None
    services = read.cluster.services if read.cluster is not None else ()
    return read_intents(sources, options, services, given)


def _beside(texts: Sequence[IntentText], sources: Sequence[Source]) -> list[IntentText]:
    """The intents among policies, except those in files that are read for their intents."""
    named = [path_name(source.path) for source in sources if isinstance(source, PathSource)]
    named += [source.name for source in sources if isinstance(source, RenderedSource)]
    return [text for text in texts if not _is_in(text.passage.text.span(0, 1).file, named)]


def _is_in(file: str, named: Sequence[str]) -> bool:
    """Whether a file is one of those named, or in a directory that is."""
    return any(file == name or file.startswith(f"{name.rstrip('/')}/") for name in named)


def verify(given: ToVerify, options: VerifyOptions, progress: Progress) -> VerifyResult:
    """The answer for each intent."""
    policies, intents = given.read.policies.policies, given.intents.intents
    asked = Evidenced({})

    def ask(policies: PolicySet, intents: Sequence[Intent]) -> Sequence[IntentAnswer]:
        connection = _connection(given.read, policies, intents, options)
        answers, evidence = verify_intents(connection, policies, intents, options.asking, progress)
        asked.add(evidence)
        return answers

    is_plain = is_understood(policies)
    answers = ask(policies, intents) if is_plain else answers_however_read(policies, intents, ask)
    return VerifyResult(
        tuple(answers),
        _universe_used(given.read, options),
        Evidence(
            METHOD if asked.queries else NO_INTENTS,
            tuple(asked.solvers),
            asked.queries,
            asked.replayed,
        ),
        _notes(given.read, options),
        tuple(map(part_of, opaque_rules(policies))),
    )


def _connection(
    read: Read, policies: PolicySet, intents: Sequence[Intent], options: VerifyOptions
) -> ConnectionTerms:
    networks = options.pod_networks
    if options.is_symbolic:
        return Connection((policies,), intents, networks)
    return ClusterConnection((policies,), _universe(read), intents, pod_networks(read, options))


def _universe(read: Read) -> Universe:
    return read.cluster.universe if read.cluster is not None else Universe()


def pod_networks(read: Read, options: VerifyOptions) -> tuple[Network, ...]:
    """The pods' networks: as given, and from the cluster's nodes."""
    nodes = read.cluster.nodes if read.cluster is not None else ()
    said = [network for node in nodes for network in node.pod_cidrs]
    return tuple(dict.fromkeys([*options.pod_networks, *said]))


def _universe_used(read: Read, options: VerifyOptions) -> UniverseUsed:
    if options.is_symbolic:
        among = ", ".join(map(str, options.pod_networks))
        where = f", with pod addresses in {among}" if among else ""
        return UniverseUsed("symbolic", f"every pod, node and address that could exist{where}")
    universe = _universe(read)
    return UniverseUsed("cluster", cluster_words(universe, "every external address"))


def _notes(read: Read, options: VerifyOptions) -> tuple[str, ...]:
    """Facts for the reader about the answers as a whole."""
    notes = []
    if not any(tier.policies for tier in read.policies.policies.tiers):
        notes.append("the input has no policy: every connection is allowed")
    unknown = any(not pod.addresses_known for pod in _universe(read).endpoints)
    if not options.is_symbolic and unknown and not pod_networks(read, options):
        notes.append("workloads may have any address: limit pod addresses with --pod-cidr")
    return tuple(notes)


def exit_code_of(result: VerifyResult) -> int:
    """1 if an intent is broken or vacuous, else 3 if one is undecided, else 0."""
    found = {answer.status for answer in result.intents}
    if found & {IntentStatus.BROKEN, IntentStatus.VACUOUS}:
        return 1
    return 3 if IntentStatus.UNDECIDED in found else 0
