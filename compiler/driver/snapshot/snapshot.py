# SPDX-License-Identifier: Apache-2.0
"""A snapshot: read from a cluster, and written as a directory that -f and --cluster accept."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from policyc.compiler.driver.codes import NOT_A_SNAPSHOT
from policyc.compiler.driver.compile.bundle import cannot_write, placed
from policyc.compiler.driver.snapshot.kept import is_copy, kept
from policyc.compiler.driver.snapshot.kinds import CLUSTER_KINDS, NAMESPACE, Kind, served_policies
from policyc.compiler.driver.snapshot.kubectl import ForbiddenError, Kubectl
from policyc.compiler.driver.snapshot.yaml_text import HEADER, text_of
from policyc.ir.errors import HostError, InputError
from policyc.ir.spans import Span

CLUSTER, POLICIES = "cluster", "policies"
"""The two directories of a snapshot."""
_AT_ONCE = 4
"""Runs of kubectl at the same time."""
_HINT = "docs/snapshot.md has a ClusterRole; --skip-forbidden goes on without these objects"
Objects = Mapping[Kind, tuple[dict[str, Any], ...]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The kept parts of a cluster's objects, sorted by namespace and name.

    `forbidden` are resources that the user may not list, `unread` served kinds without a reader.
    """

    cluster: Objects
    policies: Objects
    forbidden: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def files(self) -> dict[str, str]:
        """The texts by their paths in the directory; a kind without objects has no file."""
        return {
            f"{folder}/{kind.file}": text_of(objects)
            for folder, of_kind in ((CLUSTER, self.cluster), (POLICIES, self.policies))
            for kind, objects in of_kind.items()
            if objects
        }


def take(kubectl: Kubectl, namespace: str = "", skip_forbidden: bool = False) -> Snapshot:
    """Read the cluster; with `namespace`, of namespaced objects only those in it.

    Raises HostError where kubectl fails, where a list is forbidden, and for policies that policyc
    cannot read: answers without them would be wrong.
    """
    served = served_policies(kubectl)
    kinds = (*CLUSTER_KINDS, *served.kinds)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lists = list(pool.map(lambda kind: _listed(kubectl, kind, namespace), kinds))
    found = dict(zip(kinds, lists, strict=True))
    forbidden = tuple(kind.title for kind in kinds if found[kind] is None)
    if forbidden and not skip_forbidden:
        raise HostError(f"the cluster refuses to list {', '.join(forbidden)}", _HINT)
    _refuse_unread(found)
    objects = {kind: tuple(_kept(kind, found[kind] or ())) for kind in kinds}
    return Snapshot(
        {kind: objects[kind] for kind in CLUSTER_KINDS},
        {kind: objects[kind] for kind in served.kinds},
        forbidden,
        served.unread,
    )


def _listed(kubectl: Kubectl, kind: Kind, namespace: str) -> list[dict[str, Any]] | None:
    """The objects of a kind; None if listing them is forbidden."""
    scope: tuple[str, ...] = ()
    if kind.is_namespaced:
        scope = (f"--namespace={namespace}",) if namespace else ("--all-namespaces",)
    elif kind == NAMESPACE and namespace:
        scope = (namespace,)
    try:
        return kubectl.objects(kind.resource, scope)
    except ForbiddenError:
        return None


def _refuse_unread(found: Mapping[Kind, list[dict[str, Any]] | None]) -> None:
    for kind, objects in found.items():
        if objects and not kind.is_read:
            raise HostError(
                f"the cluster has policies that policyc cannot read: {len(objects)} {kind.kind} "
                f"of {kind.api_version}"
            )


def _kept(kind: Kind, objects: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    own = (each for each in objects if not is_copy(each, kind.api_version))
    for each in sorted(own, key=_place):
        yield kept(each, kind.api_version, kind.kind)


def _place(value: Mapping[str, Any]) -> tuple[str, str]:
    return value["metadata"].get("namespace") or "", value["metadata"]["name"]


def with_objects_replaced(
    snapshot: Snapshot, names: Iterable[tuple[str, str, str, str]]
) -> Snapshot:
    """The snapshot without the policies of these groups, kinds, namespaces and names."""
    gone = frozenset(names)
    left = {
        kind: tuple(each for each in objects if identity(each) not in gone)
        for kind, objects in snapshot.policies.items()
    }
    return replace(snapshot, policies=left)


def identity(value: Mapping[str, Any], namespace: str = "") -> tuple[str, str, str, str]:
    """Group, kind, namespace and name; `namespace` is that of an object that names none."""
    inside, name = _place(value)
    return *group_and_kind(value["apiVersion"], value["kind"]), inside or namespace, name


def group_and_kind(api_version: str, kind: str) -> tuple[str, str]:
    """What identifies a kind in any of its versions; Calico's store counts as its API."""
    return api_version.rpartition("/")[0].removeprefix("crd."), kind


def write(snapshot: Snapshot, out: Path) -> None:
    """Write the directory as a whole. An earlier snapshot there is replaced, and nothing else is.

    Raises InputError, and then the directory is as before.
    """
    try:
        if out.exists() and not is_snapshot(out):
            raise InputError([NOT_A_SNAPSHOT.at(Span(str(out), 0, 0), target=out)])
        with placed(out) as work:
            for folder in (CLUSTER, POLICIES):
                (work / folder).mkdir()
            for name, text in snapshot.files().items():
                (work / name).write_text(text, "utf-8")
            work.chmod(0o755)
    except OSError as failure:
        raise cannot_write(out, failure) from failure


def is_snapshot(out: Path) -> bool:
    """Whether a directory is empty, or has the files of a snapshot and no others."""
    if not out.is_dir():
        return False
    folders = {out / CLUSTER, out / POLICIES}
    files = [each for each in out.rglob("*") if each not in folders]
    return all(each.parent in folders and _is_ours(each) for each in files)


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.readline().decode("utf-8", "replace").strip() == HEADER
