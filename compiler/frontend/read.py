# SPDX-License-Identifier: Apache-2.0
"""The front end's entry point: sources in, Policy IR and universe out, or every finding at once.

`read_policies` and `read_cluster` are for files; `read_scenario` takes objects of both sorts together.
Each raises InputError with all findings if one of them is an error.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from policyc.compiler.frontend import codes
from policyc.compiler.frontend.calico.given_twice import given_once
from policyc.compiler.frontend.calico.host_endpoints import (
    with_hosts,
)
from policyc.compiler.frontend.checks.missing_accounts import warn_missing_accounts
from policyc.compiler.frontend.checks.missing_namespaces import warn_missing_namespaces
from policyc.compiler.frontend.checks.missing_nodes import warn_missing_nodes
from policyc.compiler.frontend.checks.several_apis import check_together
from policyc.compiler.frontend.cilium.engine_departures import (
    profile_among,
    with_departures,
)
from policyc.compiler.frontend.cilium.hosts import with_node_hosts
from policyc.compiler.frontend.cluster.services import Service
from policyc.compiler.frontend.cluster.universe import (
    Cluster,
    ClusterObjects,
    HasMetadata,
)
from policyc.compiler.frontend.found import NOTHING, Found, joined
from policyc.compiler.frontend.garbage_collection import collector_paused
from policyc.compiler.frontend.kubernetes.metadata import ObjectMeta
from policyc.compiler.frontend.kubernetes.objects import (
    ObjectReader,
    RawObject,
)
from policyc.compiler.frontend.lowered import Lowered, Pending, Profile, Reading, Surroundings
from policyc.compiler.frontend.object_kinds import Role
from policyc.compiler.frontend.policy_kinds import READERS
from policyc.compiler.frontend.read_options import (
    DEFAULT_OPTIONS,
    NOTHING_KNOWN,
    Known,
    ReadOptions,
)
from policyc.compiler.frontend.tiers import assemble, profile_of
from policyc.compiler.frontend.yaml.sources import (
    InputFile,
    ObjectsSource,
    Source,
)
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.errors import InputError
from policyc.ir.policy import PolicySet
from policyc.ir.spans import Span

__all__ = [
    "ClusterReading",
    "Known",
    "PolicyInput",
    "ReadOptions",
    "read_cluster",
    "read_policies",
    "read_scenario",
]

NO_POLICIES = PolicySet(())
INPUT = Span("-f", 0, 0)
"""The place of a finding about all files of `-f` together."""
_NO_POLICY = (
    "check for a failed pipe or a wrong path; `policyc compile --allow-empty` accepts empty input"
)
_ONLY_STAGED = (
    "all policies of the input are staged; `policyc compile --allow-empty` accepts such input"
)


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """The result of `read_policies`.

    `policies` are the live ones in their tiers. `lowered` has the staged ones, too, and `found` objects
    that are not policies, such as intents. `cluster_objects` counts, by kind, objects that are used with
    --cluster.
    """

    policies: PolicySet
    inputs: tuple[InputFile, ...] = ()
    passed_over: Counter[str] = field(default_factory=Counter, hash=False)
    cluster_objects: Counter[str] = field(default_factory=Counter, hash=False)
    findings: tuple[Diagnostic, ...] = ()
    profile: Profile = Profile.KUBERNETES
    lowered: tuple[Lowered, ...] = ()
    found: Found = NOTHING

    @property
    def staged(self) -> tuple[Lowered, ...]:
        """Policies that are compared with the live ones, and never enforced."""
        return tuple(item for item in self.lowered if item.is_staged)


def read_policies(
    sources: Sequence[Source],
    options: ReadOptions = DEFAULT_OPTIONS,
    services: Iterable[Service] = (),
    known: Known = NOTHING_KNOWN,
) -> PolicyInput:
    """Policies from `-f`; cluster objects among them are counted, not read.

    `services` are those of the cluster, which policies may name, and `known` its other objects.
    """
    reading = _Reading(options)
    cluster_objects: Counter[str] = Counter()
    with collector_paused():
        for raw in reading.reader.read(sources):
            if raw.role is Role.POLICY:
                reading.add_policy(raw)
            else:
                cluster_objects[raw.kind] += 1
        reading.lower(services, known)
    reading.raise_errors()
    if all(item.is_staged for item in reading.lowered) and not options.allow_empty:
        hint = _ONLY_STAGED if reading.lowered else _NO_POLICY
        raise InputError([*reading.report.sorted(), codes.NO_POLICY.at(INPUT).help(hint)])
    return PolicyInput(
        reading.policy_set(),
        tuple(reading.reader.inputs),
        reading.reader.passed_over,
        cluster_objects,
        tuple(reading.report.sorted()),
        reading.profile,
        tuple(reading.lowered),
        reading.found,
    )


class ClusterReading:
    """A cluster that was read; `finish` completes it after the policies are known."""

    def __init__(self, sources: Sequence[Source], options: ReadOptions = DEFAULT_OPTIONS) -> None:
        self._reading = _Reading(options)
        with collector_paused():
            for raw in self._reading.reader.read(sources):
                if raw.role is Role.CLUSTER:
                    self._reading.add_cluster_object(raw)
                else:
                    self._reading.add_known_policy(raw)

    @property
    def services(self) -> tuple[Service, ...]:
        """The Service objects, for the policies that name them."""
        return tuple(self._reading.services)

    @property
    def known(self) -> Known:
        """Other objects that policies may name."""
        return self._reading.known

    def finish(self, given: PolicySet = NO_POLICIES, found: Found = NOTHING) -> Cluster:
        """The cluster; a policy in it must be among those of `given`, too.

        `found` are the objects that the readers of those policies found: host endpoints are of the
        cluster.
        """
        with collector_paused():
            self._reading.lower_known(given, found)
            return self._reading.cluster(given)


def read_cluster(
    sources: Sequence[Source],
    options: ReadOptions = DEFAULT_OPTIONS,
    given: PolicySet = NO_POLICIES,
) -> Cluster:
    """Cluster objects from `--cluster`; a policy there must be among those of `given` too."""
    return ClusterReading(sources, options).finish(given)


def read_scenario(
    name: str, objects: Iterable[object], options: ReadOptions = DEFAULT_OPTIONS
) -> tuple[PolicySet, Cluster]:
    """Policies and cluster objects together, as Python values; findings name `<scenario NAME>`."""
    reading = _Reading(options)
    source = ObjectsSource(f"<scenario {name}>", tuple(objects))
    for raw in reading.reader.read([source]):
        if raw.role is Role.POLICY:
            reading.add_policy(raw)
        else:
            reading.add_cluster_object(raw)
    reading.lower(reading.services, reading.known)
    reading.raise_errors()
    policies = reading.policy_set()
    return policies, reading.cluster(policies)


class _Reading:
    """One run of the front end."""

    def __init__(self, options: ReadOptions) -> None:
        options.check()
        self.report = Report()
        self.options = options
        self.reader = ObjectReader(self.report, options.allow_unknown_kinds, options.selection)
        self.lowered: list[Lowered] = []
        self._found: list[Found] = []
        self.profile = options.profile or Profile.KUBERNETES
        self._profile_given: Profile | None = None
        self._pending: list[Pending] = []
        self._how = Reading(
            self.report,
            options.default_namespace,
            options.server,
            options.is_strict,
            options.channel,
            options.unsupported,
        )
        self._cluster = ClusterObjects(self.report, options.default_namespace)
        self._seen: dict[tuple[str, str, str], Span] = {}

    @property
    def services(self) -> Sequence[Service]:
        """The Service objects among the cluster's."""
        return self._cluster.services

    @property
    def known(self) -> Known:
        """The labels of the namespaces that have objects, and the other found objects."""
        labels = {n.metadata.name: n.labels for n in self._cluster.namespaces}
        return Known(labels, self.found)

    @property
    def found(self) -> Found:
        """The objects that are not policies."""
        return joined(self._found)

    def add_policy(self, raw: RawObject) -> None:
        """Decode, validate and warn; a policy with errors is never lowered."""
        before = len(self.report.findings)
        pending = READERS[raw.api_version, raw.kind](raw, self._how)
        if pending is None:
            return
        self._check_unique(raw, pending.metadata)
        if any(finding.is_error for finding in self.report.findings[before:]):
            return
        self._pending.append(pending)
        if pending.found:
            self._found.append(pending.found)

    def add_known_policy(self, raw: RawObject) -> None:
        """A policy that must be given elsewhere too: its warnings are reported there."""
        with self._only_errors():
            self.add_policy(raw)

    def add_cluster_object(self, raw: RawObject) -> None:
        """Decode a cluster object and add it."""
        metadata = self._cluster.add(raw)
        if metadata is not None:
            self._check_unique(raw, metadata)

    def lower(self, services: Iterable[Service], known: Known) -> None:
        """Make Policy IR of the pending objects, after everything that they may look up is known."""
        by_name = {(s.metadata.namespace, s.metadata.name): s for s in services}
        self._found.append(given_once(self.found, known.found, self.report))
        surroundings = Surroundings(
            self.report,
            by_name,
            self.found,
            self.options.unsupported,
            known.namespaces,
        )
        for pending in self._pending:
            self.lowered += pending.lower(surroundings)
        self._pending = []
        slots = (item.slot for item in self.lowered)
        self.profile = self.options.profile or self._profile_given or profile_of(slots)
        check_together(self.lowered, self.options.profile, self.report)
        self.lowered = list(with_departures(self.lowered, self.profile, self.report))

    def lower_known(self, given: PolicySet, found: Found) -> None:
        """Lower the policies found in a cluster, and check that they are evaluated, too.

        A policy inside the cluster that is not evaluated would make every answer wrong.
        """
        self._profile_given = profile_among(given)
        with self._only_errors():
            self.lower(self.services, replace(self.known, found=found))
        known = {policy for tier in given.tiers for policy in tier.policies}
        for item in self.lowered:
            policy = item.policy
            if not item.is_staged and policy not in known:
                finding = codes.POLICY_IN_CLUSTER.at(
                    policy.origin.span,
                    "metadata.name",
                    kind=policy.kind,
                    name=policy.qualified_name,
                )
                self.report.add(finding.help("give it with -f too, or take it out of --cluster"))

    @contextmanager
    def _only_errors(self) -> Iterator[None]:
        findings = self.report.findings
        before = len(findings)
        yield
        findings[before:] = [finding for finding in findings[before:] if finding.is_error]

    def _check_unique(self, raw: RawObject, metadata: ObjectMeta) -> None:
        """The API server would keep the later of two; policyc does not guess which was meant."""
        if not metadata.name:
            return
        group = raw.api_version.rpartition("/")[0].removeprefix("crd.")  # Calico's store is its API
        key = (group, raw.kind, metadata.qualified_name)
        earlier = self._seen.get(key)
        if earlier is None:
            self._seen[key] = metadata.span
            return
        finding = codes.DUPLICATE_OBJECT.at(
            metadata.span, "metadata.name", kind=raw.kind, name=metadata.qualified_name
        )
        self.report.add(finding.note(earlier, "first given here").help("remove one of the two"))

    def policy_set(self) -> PolicySet:
        """The live policies, in the order in which they are evaluated."""
        live = [item for item in self.lowered if not item.is_staged]
        return assemble(live, self.profile, self.found.tiers)

    def cluster(self, policies: PolicySet) -> Cluster:
        """The cluster that `policies` are for; raises if anything of this run is wrong."""
        objects = self._cluster
        universe = with_hosts(objects.universe(), self.found.hosts, self.report)
        universe = with_node_hosts(universe, policies)
        known = {namespace.metadata.name for namespace in objects.namespaces}
        warn_missing_namespaces(policies, universe.endpoints, known, self.report)
        accounts = {(a.metadata.namespace, a.metadata.name) for a in objects.service_accounts}
        warn_missing_accounts(policies, universe.endpoints, accounts, self.report)
        if objects.is_given:
            nodes = {node.name for node in objects.nodes}
            warn_missing_nodes(policies, universe, nodes, self.report)
        self.raise_errors()

        def by_name(item: HasMetadata) -> str:
            return item.metadata.qualified_name

        return Cluster(
            universe,
            tuple(sorted(objects.namespaces, key=by_name)),
            tuple(sorted(objects.services, key=by_name)),
            tuple(sorted(objects.endpoint_slices, key=by_name)),
            tuple(sorted(objects.nodes, key=by_name)),
            tuple(self.reader.inputs),
            self.reader.passed_over,
            tuple(self.report.sorted()),
            bool(self.lowered),
        )

    def raise_errors(self) -> None:
        """InputError with every finding of the run, if one of them is an error."""
        if self.report.errors:
            raise InputError(self.report.sorted())
