# SPDX-License-Identifier: Apache-2.0
"""The text of a new .policyc.yaml, from a look at the repository."""

import json
import re
from collections.abc import Iterable

from policyc.compiler.driver.settings.survey import Survey, places_of

SCHEMA = "https://policyc.dev/schemas/config.schema.json"
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")


def text_of(survey: Survey) -> str:
    """The file; each setting that needs a decision is a comment."""
    lines = [f"# yaml-language-server: $schema={SCHEMA}", ""]
    lines += [
        "# The policies: the default of -f. In a directory that contains one of them, only they"
    ]
    lines += ["# are read."]
    lines += _list("paths", places_of(survey.policy_files))
    lines += ["", "# Files that are not read: patterns as in .gitignore."]
    lines += _list("exclude", [])
    intents = places_of(sorted(set(survey.intents)))
    lines += ["", "# Intents: the default of --intents."]
    lines += _list("intents", intents)
    lines += [
        "",
        "# Namespaces, workloads and Services: the default of --cluster. With it, answers cover",
    ]
    lines += ["# these workloads; without it, every pod that could exist."]
    lines += _comments(_list("cluster", places_of(sorted(survey.cluster))))
    lines += [
        "",
        "# Kinds that policyc does not know are errors. Allow those that restrict no traffic and",
    ]
    lines += [
        "# create no policies: a kind, a group, KIND.GROUP, or a pattern such as *.example.com."
    ]
    lines += _list("allowUnknownKinds", [])
    lines += _comments(_items(sorted(survey.unknown)))
    lines += ["", "check:", "  failOn: warning  # or error, note, none"]
    lines += ["diff:", "  failOn: any  # or widened, narrowed, none"]
    return "\n".join(lines) + "\n"


def _list(name: str, values: Iterable[str]) -> list[str]:
    items = _items(values)
    return [f"{name}:", *items] if items else [f"{name}: []"]


def _items(values: Iterable[str]) -> list[str]:
    return [f"  - {value if _is_plain(value) else json.dumps(value)}" for value in values]


def _is_plain(value: str) -> bool:
    """Whether YAML reads a text as this string without quotes."""
    is_number_like = re.fullmatch(r"[0-9._-]+", value) is not None
    words = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
    return bool(_PLAIN.fullmatch(value)) and not is_number_like and value.lower() not in words


def _comments(lines: Iterable[str]) -> list[str]:
    return [f"# {line}" for line in lines]
