# SPDX-License-Identifier: Apache-2.0
"""The input of `check`: policies with their text (for the comments), and a cluster."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from policyc.compiler.driver.codes import STDIN_TWICE
from policyc.compiler.driver.compile.bundle_policies import (
    is_bundle,
    read_bundled,
)
from policyc.compiler.driver.compile.compile import (
    Read,
    read_inputs,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.frontend.named_sources import (
    is_rendered,
    named_sources,
    rendered_source,
)
from policyc.compiler.frontend.read import ClusterReading, Known, ReadOptions, read_policies
from policyc.compiler.frontend.yaml.git_commits import (
    SCHEME,
    git_source,
)
from policyc.compiler.frontend.yaml.sources import (
    MAX_BYTES,
    STDIN,
    Content,
    FileSource,
    PathSource,
    Source,
    StreamSource,
    contents,
    is_stdin_repeated,
)
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError
from policyc.ir.spans import Span


@dataclass(frozen=True, slots=True)
class ToCheck:
    """The input; `contents` are the files of the policies, empty for a bundle.

    `reader` reads other contents in place of the policies, beside the same cluster.
    """

    read: Read
    contents: tuple[Content, ...] = ()
    reader: "PolicyReader | None" = None

    @property
    def texts(self) -> Mapping[str, str]:
        """The files of the policies by the names in places."""
        return {each.name: each.data.decode("utf-8", "replace") for each in self.contents}


@dataclass(frozen=True, slots=True)
class PolicyReader:
    """Reads contents as the first read did: with the same options and objects of the cluster."""

    options: ReadOptions
    cluster: tuple[str, ...]
    stdin: bytes
    read: Read

    def again(self, given: tuple[Content, ...]) -> ToCheck:
        """The contents as input of `check`. Raises InputError."""
        around = named_sources(self.cluster, io.BytesIO(self.stdin), self.options)
        reading = ClusterReading(around, self.options) if around else None
        options = replace(self.options, allow_empty=True)  # a fix may delete the last policy
        services, known = (reading.services, reading.known) if reading else ((), Known())
        policies = read_policies(_streams(given), options, services, known)
        return ToCheck(replace(self.read, policies=policies), given, self)


def read_to_check(
    files: Sequence[str], cluster: Sequence[str], options: ReadOptions, stdin: BinaryIO
) -> ToCheck:
    """Sources of policies, and `git:REV[:PATH]`; or one bundle, which has no comments.

    Raises InputError with the findings of everything that was read.
    """
    if is_stdin_repeated(files, cluster):
        finding = STDIN_TWICE.at(Span("<stdin>", 0, 0))
        raise InputError([finding.help("write one of them to a file")])
    data = stdin.read(MAX_BYTES + 1) if STDIN in cluster else b""
    of_cluster = named_sources(cluster, io.BytesIO(data), options)
    stdin = io.BytesIO(data) if STDIN in cluster else stdin
    if len(files) == 1 and _is_path(files[0]) and is_bundle(files[0]):
        return _bundled(files[0], of_cluster, options)
    report = Report()
    sources = [_source(each, stdin, options) for each in files]
    found = list(contents(sources, report, selection=options.selection))
    try:
        read = read_inputs(Inputs(_streams(found), of_cluster, options))
    except InputError as failure:
        raise InputError([*report.findings, *failure.findings]) from failure
    if report.errors:
        raise InputError(report.findings)
    policies = replace(read.policies, findings=(*report.findings, *read.policies.findings))
    read = replace(read, policies=policies)
    return ToCheck(read, tuple(found), PolicyReader(options, tuple(cluster), data, read))


def _streams(given: Iterable[Content]) -> tuple[StreamSource, ...]:
    return tuple(StreamSource(io.BytesIO(each.data), each.name, each.is_found) for each in given)


def _is_path(argument: str) -> bool:
    return not argument.startswith(SCHEME) and not is_rendered(argument)


def _source(argument: str, stdin: BinaryIO, options: ReadOptions) -> FileSource:
    if argument == STDIN:
        return StreamSource(stdin)
    rendered = rendered_source(argument, options)
    if rendered is not None:
        return rendered
    return git_source(argument) if argument.startswith(SCHEME) else PathSource(argument)


def _bundled(path: str, cluster: tuple[Source, ...], options: ReadOptions) -> ToCheck:
    policies = read_bundled(path)
    if not cluster:
        return ToCheck(Read(policies, None))
    reading = ClusterReading(cluster, options)
    return ToCheck(Read(policies, reading.finish(policies.policies, policies.found)))
