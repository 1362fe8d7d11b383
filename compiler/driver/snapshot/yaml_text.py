# SPDX-License-Identifier: Apache-2.0
"""Objects as YAML whose scalars every reader of YAML understands alike.

Versions of YAML disagree on plain scalars such as `1e3`, `on` or `0o7`. So a string is quoted, unless
it is a word that none of them takes for something else.
"""

import re
from collections.abc import Iterable
from typing import Any

import yaml

HEADER = "# policyc snapshot"
"""The first line of every file of a snapshot."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_UNFOLDED = 1 << 30
"""A width that no line reaches."""
_WORDS = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])


class _Dumper(yaml.CSafeDumper):
    """Quotes strings that are not plain words."""

    def ignore_aliases(self, data: object) -> bool:
        """Equal parts are written out: a reader may refuse aliases."""
        return True


def _string(dumper: yaml.CSafeDumper, value: str) -> yaml.ScalarNode:
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if is_plain else '"')


_Dumper.add_representer(str, _string)


def text_of(objects: Iterable[dict[str, Any]]) -> str:
    """The objects in the given order, with sorted keys."""
    documents = (
        yaml.dump(each, Dumper=_Dumper, sort_keys=True, allow_unicode=False, width=_UNFOLDED)
        for each in objects
    )
    return "---\n".join((f"{HEADER}\n", *documents))
