# SPDX-License-Identifier: Apache-2.0
"""The nodes of a cluster for which bundles can be made."""

from policyc.compiler.driver.codes import NO_NODES, NO_SUCH_NODE
from policyc.compiler.frontend.codes import NAME_INVALID
from policyc.compiler.frontend.kubernetes.metadata import quoted
from policyc.compiler.frontend.kubernetes.names import subdomain_problems
from policyc.compiler.frontend.spelling import did_you_mean
from policyc.ir.errors import InputError
from policyc.ir.spans import Span
from policyc.ir.universe import Universe


def node_names(universe: Universe) -> tuple[str, ...]:
    """The nodes that have objects, and the nodes that pods name; sorted."""
    known = {node.name for node in universe.nodes} | {e.node for e in universe.endpoints}
    return tuple(sorted(known - {""}))


def check_node(name: str, universe: Universe) -> None:
    """Raises InputError for a node that the cluster does not have."""
    known = node_names(universe)
    if name not in known:
        finding = NO_SUCH_NODE.at(Span("--node", 0, 0), name=name)
        hint = did_you_mean(name, known) or "the known nodes have Node objects or pods"
        raise InputError([finding.help(hint)])


def all_nodes(universe: Universe) -> tuple[str, ...]:
    """Every node; InputError if there is none, or one whose name cannot be a directory's."""
    known = node_names(universe)
    if not known:
        finding = NO_NODES.at(Span("--all-nodes", 0, 0))
        raise InputError([finding.help("give Node objects, or pods with spec.nodeName")])
    where = "--all-nodes"
    bad = [
        NAME_INVALID.at(Span(where, 0, 0), where="nodeName", value=quoted(name), problem=problem)
        for name in known
        for problem in subdomain_problems(name)
    ]
    if bad:
        raise InputError(bad)
    return known
