# SPDX-License-Identifier: Apache-2.0
"""Files of Kubernetes objects for `policyc node`: JSON as `kubectl -o json` writes it, or YAML.

JSON needs only Python. YAML needs PyYAML, which a node may lack; then a message says so. An error
message names line and column, or for JSON the path.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from policyc.runtime.bundle.json_value import (
    JsonValue,
    read_json,
    read_text,
)
from policyc.runtime.errors import HostError, InputError


def read_objects(files: tuple[Path, ...]) -> list[JsonValue]:
    """Every document of the files, in order; `InputError` if one is malformed."""
    found: list[JsonValue] = []
    for file in files:
        if file.suffix == ".json":
            found.append(read_json(file))
        else:
            found.extend(_documents(file))
    return found


def _documents(file: Path) -> Iterator[JsonValue]:
    """The documents of a YAML file that are not empty."""
    try:
        import yaml
    except ImportError as error:
        raise HostError(
            f"{file}: YAML needs PyYAML, which is not installed",
            "pip install PyYAML, or give JSON: kubectl get services,endpointslices -A -o json",
        ) from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(read_text(file))
    try:
        while loader.check_node():
            reading = _Reading(yaml, loader, file)
            raw = reading.plain(loader.get_node(), "$")
            if raw is not None:
                yield JsonValue(raw, file, "$", reading.lines)
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{file}{at}: not YAML: {problem}") from error
    finally:
        loader.dispose()


class _Reading:
    """One document; `lines` gets the place of every value in it."""

    def __init__(self, yaml: Any, loader: Any, file: Path) -> None:
        self._yaml, self._loader, self._file = yaml, loader, file
        self._met: set[int] = set()
        self.lines: dict[str, str] = {}

    def plain(self, node: Any, path: str) -> object:
        """The node as a JSON value."""
        self.lines[path] = _at(node)
        if isinstance(node, self._yaml.ScalarNode):
            return self._scalar(node)
        # A few hundred bytes of aliases can expand to more than the memory.
        if id(node) in self._met:
            raise InputError(
                f"{self._file}: an alias (`*name`) refers to {_at(node)}: write its value instead"
            )
        self._met.add(id(node))
        if isinstance(node, self._yaml.SequenceNode):
            return [self.plain(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        return self._mapping(node, path)

    def _mapping(self, node: Any, path: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for key, value in node.value:
            name = str(getattr(key, "value", ""))
            if key.tag != "tag:yaml.org,2002:str" or name in found:
                what = "is given twice" if name in found else "is not a string"
                raise InputError(f"{self._file}:{_at(key)}: the key `{name}` {what}")
            found[name] = self.plain(value, f"{path}.{name}")
        return found

    def _scalar(self, node: Any) -> object:
        try:
            made = self._loader.construct_object(node)
        except ValueError as error:
            problem = f"YAML reads `{str(node.value)[:40]}` as another type: {error}"
            raise InputError(
                f"{self._file}:{_at(node)}: {problem}", "quote it if it is text"
            ) from error
        if made is None or isinstance(made, str | int | float | bool):
            return made
        return str(node.value)  # a date, which Kubernetes has as text


def _at(node: Any) -> str:
    return f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"
