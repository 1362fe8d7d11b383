# SPDX-License-Identifier: Apache-2.0
"""A cluster's policies as they are after `kubectl apply` of files, for a comparison with what they are.

An object of the files replaces the one with its group, kind, namespace and name. All others stay.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from policyc.compiler.driver.snapshot.kinds import Kind
from policyc.compiler.driver.snapshot.snapshot import (
    Snapshot,
    group_and_kind,
    identity,
    with_objects_replaced,
)
from policyc.compiler.driver.snapshot.yaml_text import text_of
from policyc.compiler.frontend.yaml.sources import Content


def write_applied(
    snapshot: Snapshot, given: Iterable[Content], namespace: str, folder: Path
) -> None:
    """Fill a new directory with the policies after `given` are applied.

    `namespace` is that of objects that name none. What cannot be parsed is left to the readers, which
    report it.
    """
    contents = list(given)
    scoped = {group_and_kind(kind.api_version, kind.kind) for kind in _cluster_scoped(snapshot)}
    names = []
    for each in (value for content in contents for value in _objects(content.data)):
        is_scoped = group_and_kind(each["apiVersion"], each["kind"]) in scoped
        names.append(identity(each, "" if is_scoped else namespace))
    folder.mkdir()
    for kind, objects in with_objects_replaced(snapshot, names).policies.items():
        if objects:
            (folder / f"live.{kind.file}").write_text(text_of(objects), "utf-8")
    for at, content in enumerate(contents):
        (folder / f"{at:05}.{_file_name(content.name)}").write_bytes(content.data)


def _cluster_scoped(snapshot: Snapshot) -> Iterator[Kind]:
    return (kind for kind in snapshot.policies if not kind.is_namespaced)


def _file_name(name: str) -> str:
    """A name that a search of the directory finds; JSON is YAML."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in Path(name).name)
    return plain if plain.endswith((".yaml", ".yml", ".json")) else f"{plain}.yaml"


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    try:
        documents = list(yaml.load_all(data, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        for each in items if isinstance(items, list) else [document]:
            if _has_identity(each):
                yield each


def _has_identity(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return False
    texts = (value.get("apiVersion"), value.get("kind"), value["metadata"].get("name"))
    return all(isinstance(each, str) for each in texts)
