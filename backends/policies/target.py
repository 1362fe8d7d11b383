# SPDX-License-Identifier: Apache-2.0
"""The result type of every target of `policyc convert`, and the error for what it cannot express."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from policyc.ir.policy import Policy, PolicySet, Rule
from policyc.ir.spans import Origin

Object = dict[str, Any]
"""An API object as JSON values, with fields in output order."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")
_LONGEST_NAME = 200
"""The limit within the 253 characters of a name; the rest is for a unique suffix."""


@dataclass(frozen=True, slots=True)
class Inexpressible:
    """A rule, or a policy as a whole, that the target cannot express. `why` is a clause."""

    name: str
    origin: Origin
    why: str


class InexpressibleError(Exception):
    """The target cannot express the policy set; carries every rule at fault."""

    def __init__(self, found: Iterable[Inexpressible]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(f"{each.name}: {each.why}" for each in self.found))


def of_rule(policy: Policy, rule: Rule, why: str) -> Inexpressible:
    """One rule of a policy."""
    return Inexpressible(f"{policy.title} {rule.origin.path}", rule.origin, why)


def of_policy(policy: Policy, why: str) -> Inexpressible:
    """A whole policy."""
    return Inexpressible(policy.title, policy.origin, why)


Writer = Callable[[PolicySet], list[Object]]
"""A target: the objects in output order, or raises InexpressibleError."""


@dataclass
class Names:
    """Gives each object a legal name of its own, as similar to the policy's as possible."""

    _taken: set[tuple[str, str]] = field(default_factory=set)

    def name(self, wanted: str, namespace: str = "") -> str:
        """A DNS subdomain not used before in this namespace."""
        base = _NOT_IN_NAMES.sub("-", wanted.lower())[:_LONGEST_NAME].strip(".-") or "policy"
        chosen, number = base, 1
        while (namespace, chosen) in self._taken:
            number += 1
            chosen = f"{base}-{number}"
        self._taken.add((namespace, chosen))
        return chosen

    def cluster_name(self, policy: Policy) -> str:
        """As `name`, for a cluster-scoped object: the namespace is part of the name."""
        return self.name(f"{policy.namespace}.{policy.name}" if policy.namespace else policy.name)
