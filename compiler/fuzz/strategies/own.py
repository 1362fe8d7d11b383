# SPDX-License-Identifier: Apache-2.0
"""The user's own policies and cluster, as mutable objects: read once, with every check."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from policyc.compiler.driver.compile.compile import (
    Read,
    read_inputs,
)
from policyc.compiler.driver.compile.enforced import enforced
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.frontend.kubernetes.objects import ObjectReader
from policyc.compiler.frontend.object_kinds import Role
from policyc.compiler.frontend.yaml.sources import (
    Source,
    StreamSource,
    read_whole,
)
from policyc.compiler.fuzz.strategies.draw import Object
from policyc.compiler.fuzz.strategies.plain import to_python
from policyc.ir.diagnostics import Report


@dataclass(frozen=True)
class Own:
    """`policies` of -f, with the objects they refer to; `cluster` is empty if none was given."""

    policies: tuple[Object, ...]
    cluster: tuple[Object, ...]
    read: Read


def read_own(inputs: Inputs) -> Own:
    """Read and check the input. InputError as `compile` raises it."""
    report = Report()
    policies, cluster = (_kept(each, report) for each in (inputs.policies, inputs.cluster))
    read = read_inputs(Inputs(_fresh(policies), _fresh(cluster), inputs.options))
    enforced(read.policies.policies, inputs.options.unsupported)
    unknown = inputs.options.allow_unknown_kinds
    return Own(
        _objects(_fresh(policies), Role.POLICY, unknown),
        _objects(_fresh(cluster), Role.CLUSTER, unknown),
        read,
    )


def _kept(sources: Sequence[Source], report: Report) -> tuple[Source, ...]:
    """Standard input can be read once, and is needed twice."""
    found: list[Source] = []
    for source in sources:
        if isinstance(source, StreamSource):
            source = StreamSource(io.BytesIO(read_whole(source, report) or b""), source.name)
        found.append(source)
    return tuple(found)


def _fresh(sources: Sequence[Source]) -> tuple[Source, ...]:
    for source in sources:
        if isinstance(source, StreamSource):
            source.stream.seek(0)
    return tuple(sources)


def _objects(sources: Sequence[Source], role: Role, unknown: frozenset[str]) -> tuple[Object, ...]:
    """The objects of one role, lists unpacked."""
    reader = ObjectReader(Report(), unknown)
    return tuple(
        {"apiVersion": raw.api_version, "kind": raw.kind} | to_python(raw.node)
        for raw in reader.read(sources)
        if raw.role is role
    )
