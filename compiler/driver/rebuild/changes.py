# SPDX-License-Identifier: Apache-2.0
"""The documents of the input that differ from the record, and the policies in them, read again."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import cached_property

from policyc.compiler.driver.rebuild.documents import Documents, documents_of, together
from policyc.compiler.driver.rebuild.files import contents_again
from policyc.compiler.driver.rebuild.record import Record
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Reading, Surroundings
from policyc.compiler.frontend.network_policy.reader import read_network_policy
from policyc.compiler.frontend.object_kinds import (
    NETWORK_POLICY,
    Role,
)
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.documents import read_documents
from policyc.compiler.frontend.yaml.sources import (
    Content,
    InputFile,
    Source,
)
from policyc.compiler.frontend.yaml.tree import Mapping as MappingNode
from policyc.compiler.frontend.yaml.tree import Scalar
from policyc.ir.diagnostics import Diagnostic, Report
from policyc.ir.fast_dataclass import dataclass
from policyc.ir.policy import Policy

MOST_CHANGED = 32
"""The limit of changed documents; beyond it, everything is read."""


@dataclass
class Input:
    """The current input beside the record's; policies by their places in the record.

    `inputs` are the manifest's entries about the files of policies. `owners` are the policies of each
    file's documents. `changed` are the policies whose text changed. `moved` gives the number of lines by
    which a policy moved, if it did.
    """

    files: Sequence[Content]
    inputs: Sequence[InputFile]
    owners: Sequence[Sequence[int]]
    changed: frozenset[int] = frozenset()
    moved: dict[int, int] = field(default_factory=dict)
    _split: dict[int, Documents] = field(default_factory=dict)

    def owner_at(self, file: int, line: int) -> int | None:
        """The policy of the document that a line of a file is in, if it has one."""
        documents = self.documents(file)
        if documents is None:
            return None
        at = bisect_right(documents.lines, line) - 1
        owner = self.owners[file][at] if at >= 0 else -1
        return owner if owner >= 0 else None

    @cached_property
    def places(self) -> dict[int, tuple[int, int]]:
        """For each policy the file and the document that it is in."""
        return {
            owner: (file, at)
            for file, owners in enumerate(self.owners)
            for at, owner in enumerate(owners)
            if owner >= 0
        }

    def documents(self, file: int) -> Documents | None:
        """The documents of a file."""
        if file not in self._split:
            found = documents_of(self.files[file].data)
            if found is None:
                return None
            self._split[file] = found
        return self._split[file]


def input_of(record: Record, policies: Sequence[Source], cluster: Sequence[Source]) -> Input | None:
    """The changes; None if more changed than the text of some documents with a policy each."""
    given, objects = contents_again(policies), contents_again(cluster)
    values = record.values
    if given is None or objects is None:
        return None
    if values["cluster"] != (_inputs(objects) if cluster else None):
        return None
    names, digests = [file.name for file in given], [sha for _, sha in values["inputs"]]
    if names != [name for name, _ in values["inputs"]]:
        return None
    inputs = [file.input_file for file in given]
    owners = [[owner for *_, owner in file or ()] for file in record.documents]
    found = Input(given, inputs, owners)
    changed: list[int] = []
    for at, (file, known) in enumerate(zip(inputs, digests, strict=True)):
        if file.sha256 == known:
            continue
        documents, before = found.documents(at), record.documents[at]
        if documents is None or before is None or len(documents) != len(before):
            return None
        today = zip(documents.digests(), documents.lines, strict=True)
        for (digest, line), (its_digest, its_line, owner) in zip(today, before, strict=True):
            if digest != its_digest:
                changed.append(owner)
            if line != its_line and owner >= 0:
                found.moved[owner] = line - its_line
    if len(changed) > MOST_CHANGED or -1 in changed:
        return None
    found.changed = frozenset(changed)
    return found


def _inputs(files: Iterable[Content]) -> list[list[str]]:
    return [[file.path, file.sha256] for file in (content.input_file for content in files)]


@dataclass(frozen=True)
class ReadAgain:
    """Policies by their places in the record, and the findings about their documents."""

    policies: dict[int, Policy]
    said: dict[int, list[Diagnostic]]


def read_again(given: Input, wanted: Iterable[int], options: ReadOptions) -> ReadAgain | None:
    """These policies, from their current documents; None if one has mistakes."""
    by_file: dict[int, list[int]] = {}
    for owner in wanted:
        file, at = given.places[owner]
        by_file.setdefault(file, []).append(at)
    found = ReadAgain({}, {})
    for file, ats in by_file.items():
        documents = given.documents(file)
        if documents is None:
            return None
        some = [documents[at] for at in sorted(ats)]
        report = Report()
        policies = _read(given.files[file].name, together(some), options, report)
        if policies is None or len(policies) != len(some):
            return None
        owners = given.owners[file]
        found.policies.update(zip((owners[at] for at in sorted(ats)), policies, strict=True))
        for finding in report.findings:
            whose = given.owner_at(file, finding.span.line)
            if whose is None or any(note.span.file != finding.span.file for note in finding.notes):
                return None
            found.said.setdefault(whose, []).append(finding)
    return found


def _read(name: str, data: bytes, options: ReadOptions, report: Report) -> list[Policy] | None:
    how = Reading(
        report,
        options.default_namespace,
        options.server,
        options.is_strict,
        options.channel,
        options.unsupported,
    )
    found: list[Policy] = []
    for node in read_documents(data, name, report):
        if not isinstance(node, MappingNode):
            return None
        kind = tuple(_text(node, field) for field in ("apiVersion", "kind"))
        if kind != NETWORK_POLICY:
            return None
        pending = read_network_policy(RawObject(*NETWORK_POLICY, Role.POLICY, node), how)
        if pending is None:
            return None
        found += [lowered.policy for lowered in pending.lower(Surroundings(report))]
    return None if report.errors else found


def _text(node: MappingNode, name: str) -> object:
    value = node.get(name)
    return value.value if isinstance(value, Scalar) else None
