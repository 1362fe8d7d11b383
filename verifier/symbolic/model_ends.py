# SPDX-License-Identifier: Apache-2.0
"""From a solver's model to the pods and nodes that it describes."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import z3

from policyc.ir.selectors import Attribute
from policyc.ir.universe import Address, Endpoint, HostInterface, Node
from policyc.verifier.smt.terms import Term
from policyc.verifier.symbolic.attributes import (
    NAMESPACE_KEY,
    NAMESPACE_NAME_LABEL,
    NODE_KEY,
    SERVICE_ACCOUNT_KEY,
    Ends,
    Key,
    text_of,
)

UNKNOWN_NAMESPACE, UNKNOWN_NODE, UNKNOWN_ACCOUNT = "some-namespace", "some-node", "default"


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads terms in a model; a term that the model leaves open gets any value."""

    model: Term

    def holds(self, term: Term) -> bool:
        """A truth value."""
        return bool(z3.is_true(self.model.eval(term, model_completion=True)))

    def number(self, term: Term) -> int:
        """The number of a bit vector."""
        return int(self.model.eval(term, model_completion=True).as_long())

    def address(self, term: Term, family: int) -> Address:
        """An address of a family."""
        number = self.number(term)
        return IPv4Address(number) if family == 4 else IPv6Address(number)

    def values(self, end: Ends) -> dict[Key, str]:
        """The value of every key that is present; a value that no policy names gets an unused name."""
        found = {}
        for key in end.domains:
            if not self.holds(end.has(key)):
                continue
            value = self.model.eval(end.value(key), model_completion=True)
            if key in end.domains.texts:
                found[key] = text_of(value)
                continue
            domain, number = end.domains[key], value.as_long()
            fresh = f"{domain.fresh()}-{end.name.replace(' ', '-')}"
            found[key] = fresh if number == domain.other else domain.values[number - 1]
        return found


def pod_of(found: Mapping[Key, str], name: str, address: Address, node: str) -> Endpoint:
    """A pod with these values, on a node with this name (none: unknown)."""
    namespace = found.get(NAMESPACE_KEY, f"{UNKNOWN_NAMESPACE}-{name}")
    labels = labels_of(found, Attribute.NODE_LABEL)
    namespaced = labels_of(found, Attribute.NAMESPACE_LABEL)
    return Endpoint(
        namespace,
        name,
        labels_of(found, Attribute.LABEL),
        {**namespaced, NAMESPACE_NAME_LABEL: namespace},
        addresses=(address,),
        service_account=found.get(SERVICE_ACCOUNT_KEY, UNKNOWN_ACCOUNT),
        service_account_labels=labels_of(found, Attribute.SERVICE_ACCOUNT_LABEL),
        node=node,
        its_node=Node(node, labels) if node or labels else None,
    )


def node_of(found: Mapping[Key, str], name: str, address: Address) -> Node:
    """A node with these values; of its flows, only the address is known."""
    labels = labels_of(found, Attribute.LABEL)
    host = HostInterface("host", labels) if labels else None
    return Node(name, labels_of(found, Attribute.NODE_LABEL), (address,), host, speaks=False)


def name_of_node(found: Mapping[Key, str], end: Ends) -> str:
    """The node's name; a name that policies do not read gets a value, too."""
    unknown = "" if NODE_KEY in end.domains else f"{UNKNOWN_NODE}-{end.name.replace(' ', '-')}"
    return found.get(NODE_KEY, unknown)


def labels_of(found: Mapping[Key, str], attribute: Attribute) -> dict[str, str]:
    """The labels under one attribute."""
    return {key: value for (of, key), value in found.items() if of is attribute}
