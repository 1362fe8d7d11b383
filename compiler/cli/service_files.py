# SPDX-License-Identifier: Apache-2.0
"""Files of Kubernetes objects for `policyc node`: JSON as `kubectl -o json` writes it, or YAML.

JSON needs nothing but Python. YAML needs PyYAML, which a node may lack; then a message says so. Either
way a complaint names line and column, or for JSON the path.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from policyc.runtime.errors import HostError, InputError
from policyc.runtime.json_value import JsonValue, read_json


def read_objects(files: tuple[Path, ...]) -> list[JsonValue]:
    """Every document of the files, in their order; `InputError` where one is malformed."""
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
            f"{file}: PyYAML is needed for YAML, and is not installed",
            "install policyc[compiler], or give JSON: kubectl get services,endpointslices -A -o json",
        ) from error
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: is not UTF-8 text") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            lines: dict[str, str] = {}
            raw = _plain(yaml, loader, node, "$", lines, file)
            if raw is not None:
                yield JsonValue(raw, file, "$", lines)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(f"{file}{at}: not YAML: {problem}") from error
    finally:
        loader.dispose()


def _plain(
    yaml: Any, loader: Any, node: Any, path: str, lines: dict[str, str], file: Path
) -> object:
    """The node as JSON would have it; `lines` gets the place of every value below it."""
    lines[path] = f"{node.start_mark.line + 1}:{node.start_mark.column + 1}"
    if isinstance(node, yaml.SequenceNode):
        return [
            _plain(yaml, loader, item, f"{path}[{i}]", lines, file)
            for i, item in enumerate(node.value)
        ]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, object] = {}
        for key, value in node.value:
            name = str(getattr(key, "value", ""))
            if key.tag != "tag:yaml.org,2002:str" or name in found:
                what = "is given twice" if name in found else "is no string"
                at = f"{key.start_mark.line + 1}:{key.start_mark.column + 1}"
                raise InputError(f"{file}:{at}: the key `{name}` {what}")
            found[name] = _plain(yaml, loader, value, f"{path}.{name}", lines, file)
        return found
    made = loader.construct_object(node)
    if made is None or isinstance(made, str | int | float | bool):
        return made
    return str(node.value)  # a date, which Kubernetes has as text
