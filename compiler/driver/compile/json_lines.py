# SPDX-License-Identifier: Apache-2.0
"""JSON of bundles: an object whose lists have one item a line; fast to write and to compare."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def json_text(value: Mapping[str, Any]) -> str:
    """The object as text, its members sorted by name."""
    return joined_members({name: member_text(value[name]) for name in value})


def member_text(member: Any) -> str:
    """The text of one member: a list has one item a line."""
    if isinstance(member, list) and member:
        return list_text(_ENCODER.encode(item) for item in member)
    return _ENCODER.encode(member)


def list_text(items: Iterable[str]) -> str:
    """A list from the texts of its items."""
    text = ",\n".join(items)
    return f"[\n{text}]" if text else "[]"


def item_texts(members: Iterable[Any]) -> list[str]:
    """The text of each item of a list."""
    return [_ENCODER.encode(item) for item in members]


def object_text(texts: Mapping[str, str]) -> str:
    """An object from the texts of its members."""
    members = (f"{_ENCODER.encode(name)}:{texts[name]}" for name in sorted(texts))
    return "{" + ",\n".join(members) + "}"


def joined_members(texts: Mapping[str, str]) -> str:
    """The text of a file: an object from the texts of its members."""
    return object_text(texts) + "\n"
