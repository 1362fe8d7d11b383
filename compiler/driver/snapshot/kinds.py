# SPDX-License-Identifier: Apache-2.0
"""The kinds of objects in a snapshot: those of the cluster, and the policies that its API serves."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from policyc.compiler.driver.snapshot.kubectl import Kubectl
from policyc.compiler.frontend.object_kinds import (
    INTENT,
    POLICY_GROUPS,
    ROLES,
    NotYet,
    Role,
    Unknown,
    classify,
    is_like_policy,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind as the API serves it. `is_read` False: policyc has no reader for this version."""

    api_version: str
    kind: str
    plural: str
    is_namespaced: bool
    is_read: bool = True

    @property
    def resource(self) -> str:
        """Its name for kubectl, which no other group or version shares."""
        group, _, version = self.api_version.rpartition("/")
        return f"{self.plural}.{version}.{group}"

    @property
    def title(self) -> str:
        """Its name in messages."""
        group = self.api_version.rpartition("/")[0]
        return f"{self.plural}.{group}" if group else self.plural

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.title}.yaml"


NAMESPACE = Kind("v1", "Namespace", "namespaces", False)
CLUSTER_KINDS = (
    NAMESPACE,
    Kind("v1", "Node", "nodes", False),
    Kind("v1", "Pod", "pods", True),
    Kind("v1", "Service", "services", True),
    Kind("v1", "ServiceAccount", "serviceaccounts", True),
)

_READ = frozenset(version for (version, _), role in ROLES.items() if role is Role.POLICY)
"""The versions with readers of policies."""


@dataclass(frozen=True, slots=True)
class Served:
    """The kinds of policies that the API serves. `unread` may change verdicts, and has no reader."""

    kinds: tuple[Kind, ...]
    unread: tuple[str, ...]


def served_policies(kubectl: Kubectl) -> Served:
    """Ask the API server which kinds of policies it serves, each in one version. Raises HostError.

    A group that is missing is skipped. Of Calico's API and its store the API is taken.
    """
    groups = kubectl.raw("/apis").get("groups") or ()
    versions = [
        each["groupVersion"]
        for group in groups
        if group["name"] in POLICY_GROUPS
        for each in group["versions"]
    ]
    kinds: dict[tuple[str, str], Kind] = {}
    unread = set()
    for version in sorted(versions, key=_preference):
        for resource in _resources(kubectl.raw(f"/apis/{version}").get("resources") or ()):
            found = _kind(version, resource)
            key = version.rpartition("/")[0].removeprefix("crd."), found.kind
            if found.is_read or is_like_policy(found.kind):
                kinds.setdefault(key, found)
            elif isinstance(classify(version, found.kind), (NotYet, Unknown)):
                unread.add(f"{found.kind}.{key[0]}")
    ordered = sorted(kinds.values(), key=lambda each: (each.api_version, each.kind))
    return Served(tuple(ordered), tuple(sorted(unread)))


def _preference(version: str) -> tuple[bool, bool, bool, str]:
    """Versions with a reader first, an API before its store, and stable versions before others."""
    return version not in _READ, version.startswith("crd."), "alpha" in version, version


def _resources(given: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Resources that can be listed; `x/status` is a part of one."""
    return (each for each in given if "/" not in each["name"] and "list" in each["verbs"])


def _kind(version: str, resource: dict[str, Any]) -> Kind:
    kind = resource["kind"]
    is_read = ROLES.get((version, kind)) is Role.POLICY and (version, kind) != INTENT
    return Kind(version, kind, resource["name"], bool(resource["namespaced"]), is_read)
