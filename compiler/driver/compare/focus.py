# SPDX-License-Identifier: Apache-2.0
"""The ends that --focus names in a cluster: a pod or workload, namespace, node, address or CIDR."""

from collections.abc import Iterable
from difflib import get_close_matches

from policyc.compiler.driver.codes import NO_SUCH_FOCUS
from policyc.compiler.frontend.kubernetes.addresses import (
    parse_address,
    parse_cidr,
)
from policyc.ir.diagnostics import Diagnostic
from policyc.ir.errors import InputError
from policyc.ir.peers import Network
from policyc.ir.semantics import as_seen
from policyc.ir.spans import Span
from policyc.ir.universe import Endpoint, Node, Universe, end_name
from policyc.verifier.cluster.listing import Focus

NODE = "node/"


def focus_of(wanted: Iterable[str], universe: Universe) -> Focus:
    """The ends and networks of --focus; InputError with the nearest spelling if there is none."""
    names: set[str] = set()
    networks: list[Network] = []
    missing: list[Diagnostic] = []
    for text in wanted:
        network = _network(text)
        if network is not None:
            networks.append(network)
            names |= _holders(network, universe)
            continue
        found = _named(text, universe)
        names |= found
        if not found:
            missing.append(_missing(text, universe))
    if missing:
        raise InputError(missing)
    return Focus(frozenset(names), tuple(dict.fromkeys(networks)))


def _network(text: str) -> Network | None:
    found = parse_cidr(text)
    if found is not None:
        return found.network
    address = parse_address(text)
    if address is None:
        return None
    whole = parse_cidr(f"{address}/{address.max_prefixlen}")
    return None if whole is None else whole.network


def _holders(network: Network, universe: Universe) -> set[str]:
    """The pods and nodes with an address in a network."""
    ends: list[Endpoint | Node] = [*universe.endpoints, *universe.nodes]
    return {
        _seen_name(end)
        for end in ends
        if any(a.version == network.version and a in network for a in end.addresses)
    }


def _named(text: str, universe: Universe) -> set[str]:
    if text.startswith(NODE):
        name = text.removeprefix(NODE)
        nodes = {_seen_name(node) for node in universe.nodes if node.name == name}
        if nodes:
            return nodes
    namespace, _, name = text.partition("/")
    return {
        _seen_name(end)
        for end in universe.endpoints
        if end.namespace == namespace and name in ("*", end.name)
    }


def _seen_name(end: Endpoint | Node) -> str:
    """The listing's name of an end: a pod on the host network is its node's address (A21)."""
    seen = as_seen(end)
    if isinstance(seen, Node):
        seen = Node(seen.name, speaks=False)
    return end_name(seen)


def _missing(text: str, universe: Universe) -> Diagnostic:
    known = [end.qualified_name for end in universe.endpoints]
    known += [f"{namespace}/*" for namespace in {end.namespace for end in universe.endpoints}]
    known += [f"{NODE}{node.name}" for node in universe.nodes]
    found = NO_SUCH_FOCUS.at(Span("--focus", 0, 0), text=text)
    if "/" not in text:
        same = sorted(name for name in known if name.partition("/")[2] == text)
        if f"{text}/*" in known:
            same = [f"{text}/*"]
    else:
        same = get_close_matches(text, sorted(known), n=1)
    return (
        found.help(f"did you mean {same[0]}?")
        if same
        else found.help(
            "namespace/name of a pod or workload, namespace/*, node/NAME, an address or a CIDR"
        )
    )
