# SPDX-License-Identifier: Apache-2.0
"""The effects of rules besides allow and deny, for ids that are made on the node.

A default deny has no effects. A decision with notes has its rule's effects, and is logged if one of the
notes says so. It is the twin of `ir/effects.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from policyc.runtime.bundle.bundle import Bundle
from policyc.runtime.endpoints.placement import MapWrite

TABLE = "pc_effects"
WORDS = 6
LOG = 4
"""PC_EFFECT_LOG of datapath/effects.h."""


class Effects:
    """The entries of pc_effects, one per id; a program whose rules have no effects has no such map."""

    def __init__(self, bundle: Bundle) -> None:
        self._is_there = any(spec.name == TABLE for spec in bundle.maps)
        self._words = bundle.seed_words(TABLE) if self._is_there else ()
        self._rules = bundle.rules
        self._n_written = 0

    def writes(self, new_rules: Sequence[Mapping[str, Any]]) -> list[MapWrite]:
        """The entries of the rules made since the last call; `new_rules` are all rules made so far."""
        made, self._n_written = new_rules[self._n_written :], len(new_rules)
        if not self._is_there:
            return []
        return [MapWrite(TABLE, rule["id"], self._row(rule)) for rule in made if "notes" in rule]

    def _row(self, rule: Mapping[str, Any]) -> tuple[int, ...]:
        at = WORDS * rule["of"]
        kinds, *rest = self._words[at : at + WORDS] or (0,) * WORDS
        if any(self._is_logged(note) for note in rule["notes"]):
            kinds |= LOG
        return kinds, *rest

    def _is_logged(self, note: int) -> bool:
        rule = self._rules[note]
        return rule["action"] == "log" or bool(rule.get("log"))
