# SPDX-License-Identifier: Apache-2.0
"""The two sides of a comparison, and the sources that their names stand for."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from policyc.compiler.driver.codes import CLUSTER_MISSING, CLUSTER_TWICE, STDIN_TWICE
from policyc.compiler.driver.compare.rendered_sides import (
    rendered_side,
    takes_path_of_rendered,
)
from policyc.compiler.driver.compile.bundle_policies import (
    is_bundle,
    read_bundled,
)
from policyc.compiler.driver.compile.compile import Read
from policyc.compiler.frontend.cluster.universe import Cluster
from policyc.compiler.frontend.codes import NO_POLICY, NOTHING_HERE
from policyc.compiler.frontend.found import NOTHING, Found
from policyc.compiler.frontend.garbage_collection import collector_paused
from policyc.compiler.frontend.lowered import Lowered
from policyc.compiler.frontend.named_sources import is_rendered
from policyc.compiler.frontend.read import (
    ClusterReading,
    Known,
    PolicyInput,
    ReadOptions,
    read_policies,
)
from policyc.compiler.frontend.yaml.codes_git import NOT_IN_COMMIT
from policyc.compiler.frontend.yaml.git_commits import (
    SCHEME,
    git_source,
)
from policyc.compiler.frontend.yaml.sources import (
    MAX_BYTES,
    STDIN,
    PathSource,
    Source,
    StreamSource,
    is_stdin_repeated,
)
from policyc.ir.diagnostics import Diagnostic, Severity
from policyc.ir.errors import InputError
from policyc.ir.policy import PolicySet
from policyc.ir.spans import Span

_BOTH_EMPTY = "neither side has a policy: check for a failed pipe or a wrong path"


@collector_paused()
def read_sides(
    old: str,
    new: str,
    options: ReadOptions,
    cluster: Sequence[str] = (),
    cluster_old: Sequence[str] = (),
    cluster_new: Sequence[str] = (),
    stdin: BinaryIO | None = None,
    paths: Sequence[str] = (),
) -> tuple[Read, Read]:
    """Read both sides. `cluster` is for both, `cluster_old` and `cluster_new` for one each.

    With `paths` the old side is these paths in the commit `old`, and `new` is only the name of what
    they are now. With `cluster` the two sides share one cluster; a policy in it must belong to one of
    the sides.
    Raises InputError with the findings of everything that was read.
    """
    _check(old, new, cluster, cluster_old, cluster_new)
    given = _Given((old, new, *cluster, *cluster_old, *cluster_new), stdin, paths)
    findings: list[Diagnostic] = []
    of_old = given.cluster(cluster or cluster_old, options, findings)
    of_new = of_old if cluster else given.cluster(cluster_new, options, findings)
    before = given.policies(old, new, options, of_old, findings)
    after = given.policies(new, old, options, of_new, findings)
    universes = _clusters(given, cluster, options, (before, after), (of_old, of_new), findings)
    if before is None or after is None or any(finding.is_error for finding in findings):
        raise InputError(list(dict.fromkeys(findings)))
    if not any(map(_has_policies, (before, after))):
        where = Span(f"{old} and {new}", 0, 0)
        said = dict.fromkeys((*findings, *before.findings, *after.findings))
        raise InputError([*said, NO_POLICY.at(where).help(_BOTH_EMPTY)])
    return Read(before, universes[0]), Read(after, universes[1])


def _has_policies(side: PolicyInput) -> bool:
    return bool(side.lowered) or any(tier.policies for tier in side.policies.tiers)


def both_findings(old: Read, new: Read) -> tuple[Diagnostic, ...]:
    """The findings of both sides that did not stop the run; shared ones appear once."""
    return tuple(dict.fromkeys((*old.findings, *new.findings)))


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """The changes among the policies that are not enforced. Sorted by title."""

    added: tuple[Lowered, ...]
    removed: tuple[Lowered, ...]
    changed: tuple[tuple[Lowered, Lowered], ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


def staged_changes(old: Read, new: Read) -> StagedChanges:
    """The staged policies that were added, removed, or changed (old, new), in rules, order or tier."""
    before, after = (
        {(item.policy.title, item.policy.kind): item for item in side.policies.staged}
        for side in (old, new)
    )
    return StagedChanges(
        tuple(after[name] for name in sorted(after.keys() - before.keys())),
        tuple(before[name] for name in sorted(before.keys() - after.keys())),
        tuple(
            (before[name], after[name])
            for name in sorted(before.keys() & after.keys())
            if before[name] != after[name]
        ),
    )


class _Given:
    """The inputs that the arguments name; standard input is read on first use, and cached."""

    def __init__(
        self, arguments: Sequence[str], stdin: BinaryIO | None, paths: Sequence[str] = ()
    ) -> None:
        self._paths = paths
        piped = STDIN in arguments and stdin is not None
        self._piped = stdin.read(MAX_BYTES + 1) if piped and stdin is not None else b""

    def policies(
        self,
        side: str,
        other: str,
        options: ReadOptions,
        cluster: ClusterReading | None,
        findings: list[Diagnostic],
    ) -> PolicyInput | None:
        """The policies of one side; its mistakes are added to `findings`."""
        try:
            if not self._paths and _is_path(side) and is_bundle(side):
                return read_bundled(side)
            services = cluster.services if cluster else ()
            known = cluster.known if cluster else Known()
            return read_policies(self._sources(side, other, options), options, services, known)
        except InputError as failure:
            without = {NOTHING_HERE.name}
            if self._takes_path_of(side, other):  # the other file exists, or is an error of its own
                without.add(NOT_IN_COMMIT.name)
            wrong = {f.code for f in failure.findings if f.is_error}
            if len(self._paths) < 2 and wrong <= without:  # else other paths may have policies
                return _without_policies(failure.findings, options)
            findings += failure.findings
            return None

    def cluster(
        self, arguments: Sequence[str], options: ReadOptions, findings: list[Diagnostic]
    ) -> ClusterReading | None:
        """The cluster of the arguments, before the policies are known."""
        if not arguments:
            return None
        try:
            return ClusterReading([self._source(each, options) for each in arguments], options)
        except InputError as failure:
            findings += failure.findings
            return None

    def _sources(self, side: str, other: str, options: ReadOptions) -> list[Source]:
        if not self._paths:
            return [self._source(side, options, other)]
        if not side.startswith(SCHEME):
            return [PathSource(path) for path in self._paths if os.path.lexists(path)]
        return [replace(git_source(side, path), may_be_missing=True) for path in self._paths]

    def _source(self, argument: str, options: ReadOptions, other: str = "") -> Source:
        rendered = rendered_side(argument, other, options)
        if rendered is not None:
            return rendered
        if argument == STDIN:
            return StreamSource(io.BytesIO(self._piped))
        if not argument.startswith(SCHEME):
            return PathSource(argument)
        _, _, path = other.removeprefix(SCHEME).partition(":")
        if self._takes_path_of(argument, other) and other.startswith(SCHEME):
            return git_source(f"{argument}:{path}")
        is_path = other != "" and _is_path(other) and not is_bundle(other)
        return git_source(argument, other if is_path else None)

    def _takes_path_of(self, argument: str, other: str) -> bool:
        """Whether `argument` is a commit without PATH, and `other` names a path."""
        if is_rendered(argument) or is_rendered(other):
            return takes_path_of_rendered(argument, other)
        if not argument.startswith(SCHEME) or ":" in argument.removeprefix(SCHEME):
            return False
        revision, _, path = other.removeprefix(SCHEME).partition(":")
        if other.startswith(SCHEME):
            return bool(revision and path)
        return other not in ("", STDIN) and not is_bundle(other)


def _is_path(side: str) -> bool:
    return side != STDIN and not side.startswith(SCHEME) and not is_rendered(side)


def _without_policies(said: Sequence[Diagnostic], options: ReadOptions) -> PolicyInput:
    """No files, or no directory: no policies, as before the first or after the last; a warning."""
    empty = read_policies([StreamSource(io.BytesIO(b""))], options)
    warned = [_warning(finding) if finding.is_error else finding for finding in said]
    return replace(empty, findings=tuple(warned))


def _warning(said: Diagnostic) -> Diagnostic:
    warned = replace(said, severity=Severity.WARNING)
    if said.code != NOT_IN_COMMIT.name:
        return warned
    return warned.help("this side has no policies; to compare another path, give git:REV:PATH")


def _check(
    old: str,
    new: str,
    cluster: Sequence[str],
    cluster_old: Sequence[str],
    cluster_new: Sequence[str],
) -> None:
    """Raises InputError for arguments that cannot be combined."""
    usage = Span("--cluster", 0, 0)
    own = {"--cluster-old": cluster_old, "--cluster-new": cluster_new}
    given = [option for option, values in own.items() if values]
    if cluster and given:
        finding = CLUSTER_TWICE.at(usage, option=given[0])
        raise InputError(
            [finding.help("--cluster-old and --cluster-new are for the sides' own clusters")]
        )
    if len(given) == 1:
        (missing,) = own.keys() - set(given)
        finding = CLUSTER_MISSING.at(usage, given=given[0], missing=missing)
        raise InputError([finding.help("--cluster is for both sides")])
    if is_stdin_repeated((old, new), cluster, cluster_old, cluster_new):
        finding = STDIN_TWICE.at(Span("<stdin>", 0, 0))
        raise InputError([finding.help("write one of them to a file")])


def _clusters(
    given: _Given,
    cluster: Sequence[str],
    options: ReadOptions,
    policies: tuple[PolicyInput | None, PolicyInput | None],
    readings: tuple[ClusterReading | None, ClusterReading | None],
    findings: list[Diagnostic],
) -> tuple[Cluster | None, Cluster | None]:
    """The clusters of the two sides; one for both if the policies have no hosts of their own."""
    if not cluster:
        old, new = (
            _finished(reading, (side,), side, findings)
            for reading, side in zip(readings, policies, strict=True)
        )
        return old, new
    old = _finished(readings[0], policies, policies[0], findings)
    if _found(policies[0]) == _found(policies[1]):
        with_hosts = old
    else:
        again = given.cluster(cluster, options, [])  # its mistakes were reported
        with_hosts = _finished(again, policies, policies[1], findings)
    return old, with_hosts


def _found(side: PolicyInput | None) -> Found:
    return side.found if side else NOTHING


def _finished(
    reading: ClusterReading | None,
    sides: Sequence[PolicyInput | None],
    own: PolicyInput | None,
    findings: list[Diagnostic],
) -> Cluster | None:
    """The cluster for the policies of `sides`, with the objects of the policies of its `own` side."""
    if reading is None:
        return None
    tiers = tuple(tier for side in sides if side for tier in side.policies.tiers)
    try:
        found = reading.finish(PolicySet(tiers), _found(own))
    except InputError as failure:
        findings += failure.findings
        return None
    return replace(found, findings=tuple(dict.fromkeys(found.findings)))
