# SPDX-License-Identifier: Apache-2.0
"""Convert: policies read, written in another API, read back, and proved to mean the same.

The writer is not trusted: all output has been proved by Z3 to equal the input, for every cluster that
could exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO

import yaml

from policyc.backends.policies.calico import to_calico
from policyc.backends.policies.cluster_network_policy import to_cluster_network_policies
from policyc.backends.policies.extended import to_extended_policies
from policyc.backends.policies.network_policy import to_network_policies
from policyc.backends.policies.target import InexpressibleError, Object, Writer
from policyc.compiler.driver.codes import INEXPRESSIBLE, OPAQUE_CONVERTED
from policyc.compiler.driver.compile.compile import (
    Progress,
    Read,
    host_endpoints,
    read_inputs,
)
from policyc.compiler.driver.compile.inputs import Inputs
from policyc.compiler.frontend.read import read_policies
from policyc.compiler.frontend.yaml.scalars import resolve
from policyc.compiler.frontend.yaml.sources import StreamSource
from policyc.ir.bounds import opaque_rules
from policyc.ir.describe_verdict import describe_verdict
from policyc.ir.diagnostics import Report
from policyc.ir.errors import InputError, InternalError
from policyc.ir.passes.without_effects import WithoutEffects
from policyc.ir.passes.without_hosts import WithoutHosts
from policyc.ir.policy import PolicySet
from policyc.verifier.symbolic.policy_equivalence import (
    Difference,
    GaveUp,
    Same,
    compare,
)

TARGETS: Mapping[str, Writer] = {
    "extended": to_extended_policies,
    "calico": to_calico,
    "clusternetworkpolicy": to_cluster_network_policies,
    "networkpolicy": to_network_policies,
}
"""Target -> its writer."""


@dataclass(frozen=True)
class Converted:
    """The input, and the result: YAML text, proved to mean the same by `queries` queries.

    `kept` are objects that the policies depend on and that are not converted: they must stay.
    """

    read: Read
    n_objects: int
    text: str
    queries: int
    kept: tuple[str, ...]


def convert_inputs(
    inputs: Inputs, target: str, ignore_effects: bool, progress: Progress
) -> Converted:
    """Convert, or raise: InputError for inexpressible rules, InternalError for a failed proof."""
    progress("reading")
    read = read_inputs(inputs)
    _refuse_opaque(read.policies.policies)
    policies = _without_unknown_hosts(read.policies.policies, read)
    if ignore_effects:
        policies = WithoutEffects().run(policies, Report())
    progress("writing")
    objects = _written(policies, target)
    text = to_yaml(objects)
    progress("proving")
    queries = _prove(policies, _without_unknown_hosts(_read_back(text, inputs), read), target)
    kept = tuple(f"HostEndpoint {name}" for name in host_endpoints(read))
    return Converted(read, len(objects), text, queries, kept)


def _refuse_opaque(policies: PolicySet) -> None:
    """InputError for every opaque rule: its meaning cannot be written."""
    found = [
        OPAQUE_CONVERTED.at(
            each.rule.origin.span,
            each.rule.origin.path,
            name=each.title,
            asks=", ".join(each.rule.opaque.asks),
        ).help("remove the rule, and convert it by hand")
        for each in opaque_rules(policies)
        if each.rule.opaque is not None
    ]
    if found:
        raise InputError(found)


def _without_unknown_hosts(policies: PolicySet, read: Read) -> PolicySet:
    """Without a HostEndpoint nothing is said of hosts: Calico's global policies could select some."""
    if host_endpoints(read):
        return policies
    return WithoutHosts().run(policies, Report())


def _written(policies: PolicySet, target: str) -> list[Object]:
    try:
        return TARGETS[target](policies)
    except InexpressibleError as failure:
        raise InputError(
            [
                INEXPRESSIBLE.at(
                    each.origin.span, each.origin.path, name=each.name, target=target, why=each.why
                )
                for each in failure.found
            ]
        ) from failure


def _read_back(text: str, inputs: Inputs) -> PolicySet:
    """The policies that a reader of the output gets; an unreadable output is a bug in policyc."""
    options = replace(inputs.options, profile=None, allow_empty=True)
    try:
        return read_policies([StreamSource(BytesIO(text.encode()))], options).policies
    except InputError as failure:
        raise InternalError(f"the converted policies cannot be read back: {failure}") from failure


def _prove(before: PolicySet, after: PolicySet, target: str) -> int:
    match compare(before, after):
        case Same(queries):
            return queries
        case GaveUp(reason):
            raise InternalError(f"the solver gave up on the converted policies: {reason}")
        case Difference(flow, direction, one, other):
            raise InternalError(
                f"the {target} policies would not mean the same, and were not written."
                f"\nwitness: {flow}, {direction.value}: now {describe_verdict(one)},"
                f" then {describe_verdict(other)}"
            )


def to_yaml(objects: list[Object]) -> str:
    """The objects as YAML documents; texts of several lines as literal blocks."""
    return yaml.dump_all(
        objects, Dumper=_Dumper, sort_keys=False, default_flow_style=False, width=100
    )


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and repeats equal values instead of using aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """A text; in quotes if Kubernetes would not read it as text (`y`, `1e3`)."""
    style = None if isinstance(resolve(text), str) else "'"
    if "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
