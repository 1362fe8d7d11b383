# SPDX-License-Identifier: Apache-2.0
"""The rules of a generation by id, and where a rule is written."""

from collections.abc import Mapping
from typing import Any

from policyc.runtime.state import Generation


def rules_by_id(generation: Generation) -> dict[int, dict[str, Any]]:
    """The entries of rules.json, and those made on the node, by id."""
    return {int(rule.get("id", i)): rule for i, rule in enumerate(generation.rules)}


def place_of(rule: Mapping[str, Any]) -> str:
    """The rule in the user's files: its policies, then file and line of each place."""
    places = [f"{place['file']}:{place['line']}" for place in rule.get("places", ())]
    return " ".join([*rule.get("policies", ()), *places]) or str(rule.get("kind", ""))
