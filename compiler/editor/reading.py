# SPDX-License-Identifier: Apache-2.0
"""Strict reading, file by file: after an edit only the edited file is read again.

A file with an error is left out of the policies. A file is read alone only if nothing of another file
can change what is said about it. Otherwise all files are read again.
"""

import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from policyc.compiler.editor.folder import Folder
from policyc.compiler.frontend.cluster.universe import Cluster
from policyc.compiler.frontend.lowered import Lowered, Profile
from policyc.compiler.frontend.named_sources import named_sources
from policyc.compiler.frontend.read import ClusterReading, Known, PolicyInput, read_policies
from policyc.compiler.frontend.tiers import assemble
from policyc.compiler.frontend.yaml.sources import Content, StreamSource
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.policy import PolicySet

EMPTY = PolicyInput(PolicySet(()))
_MOST_ATTEMPTS = 3
"""How often files with errors are left out before reading gives up."""
Findings = Mapping[str, tuple[Diagnostic, ...]]


@dataclass(frozen=True, slots=True)
class Reading:
    """What the files say. `findings` are by file, and `broken` are the files with errors.

    `policies` are those of the other files. `is_whole` False: these could not be read together.
    """

    folder: Folder
    policies: PolicyInput = EMPTY
    cluster: Cluster | None = None
    around: ClusterReading | None = None
    lowered: Mapping[str, tuple[Lowered, ...]] = field(default_factory=dict)
    findings: Findings = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    is_whole: bool = False


def read_all(folder: Folder) -> Reading:
    """Every file, and the cluster of the settings."""
    findings = list(folder.findings)
    around = None
    if folder.settings.cluster:
        try:
            sources = named_sources(folder.settings.cluster, io.BytesIO(), folder.options)
            around = ClusterReading(sources, folder.options)
        except InputError as failure:
            findings += failure.findings
    left = dict(folder.files)
    for attempt in range(_MOST_ATTEMPTS):
        try:
            read = _read(left.values(), folder, around)
            cluster = around.finish(read.policies, read.found) if around else None
        except InputError as failure:
            findings += failure.findings if attempt == 0 else ()
            bad = {each.span.file for each in failure.findings if each.is_error}
            if not bad & left.keys():
                break
            left = {name: each for name, each in left.items() if name not in bad}
            around = _again(around, folder)
        else:
            findings += read.findings if attempt == 0 else ()
            findings += cluster.findings if cluster is not None and attempt == 0 else ()
            return Reading(
                folder, read, cluster, around, _by_file(read.lowered), *_findings(findings), True
            )
    return Reading(folder, EMPTY, None, around, {}, *_findings(findings))


def _again(around: ClusterReading | None, folder: Folder) -> ClusterReading | None:
    """The cluster for another attempt; `finish` completes a reading once."""
    if around is None:
        return None
    return ClusterReading(
        named_sources(folder.settings.cluster, io.BytesIO(), folder.options), folder.options
    )


def _read(given: Iterable[Content], folder: Folder, around: ClusterReading | None) -> PolicyInput:
    services, known = (around.services, around.known) if around else ((), Known())
    streams = [StreamSource(io.BytesIO(c.data), c.name, c.is_found) for c in given]
    return read_policies(streams, folder.options, services, known)


def _by_file(lowered: Iterable[Lowered]) -> dict[str, tuple[Lowered, ...]]:
    found: defaultdict[str, list[Lowered]] = defaultdict(list)
    for each in lowered:
        found[each.policy.origin.span.file].append(each)
    return {name: tuple(items) for name, items in found.items()}


def _findings(given: Iterable[Diagnostic]) -> tuple[Findings, frozenset[str]]:
    """The findings by file, each once, and the files with errors."""
    found: defaultdict[str, list[Diagnostic]] = defaultdict(list)
    for each in dict.fromkeys(given):
        found[each.span.file].append(each)
    broken = frozenset(n for n, items in found.items() if any(each.is_error for each in items))
    return {name: tuple(items) for name, items in found.items()}, broken


def edited(reading: Reading, content: Content) -> Reading:
    """The reading after a change of one file."""
    files = {**reading.folder.files, content.name: content}
    folder = replace(reading.folder, files=files)
    return _alone(replace(reading, folder=folder), content) or read_all(folder)


def _alone(reading: Reading, content: Content) -> Reading | None:
    """The reading after this file is read again; None if other files have a say in it."""
    if not reading.is_whole or not _is_plain(reading.policies):
        return None
    name = content.name
    lowered = {file: each for file, each in reading.lowered.items() if file != name}
    others = {file: each for file, each in reading.findings.items() if file != name}
    broken = reading.broken - {name}
    try:
        read = _read([content], reading.folder, reading.around)
    except InputError as failure:
        findings = tuple(each for each in failure.findings if each.span.file == name)
        broken |= {name}
    else:
        taken = {_name(each) for items in lowered.values() for each in items}
        if not _is_plain(read) or any(_name(each) in taken for each in read.lowered):
            return None
        findings = tuple(each for each in read.findings if each.span.file == name)
        lowered[name] = read.lowered
    ordered = [lowered[file] for file in reading.folder.files if file in lowered]
    every = tuple(each for items in ordered for each in items)
    live = [each for each in every if not each.is_staged]
    policies = replace(
        reading.policies,
        policies=assemble(live, Profile.KUBERNETES, ()),
        lowered=every,
        findings=(),
    )
    return replace(
        reading,
        policies=policies,
        lowered=lowered,
        findings={**others, name: findings},
        broken=broken,
    )


def _is_plain(read: PolicyInput) -> bool:
    """Whether policies stand alone: no objects that others name, and no order of several engines."""
    return read.profile is Profile.KUBERNETES and not read.found


def _name(lowered: Lowered) -> tuple[str, str]:
    return lowered.policy.kind, lowered.policy.qualified_name
