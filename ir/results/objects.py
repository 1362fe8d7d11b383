# SPDX-License-Identifier: Apache-2.0
"""The policies that a change adds, removes and changes. Data only."""

from dataclasses import dataclass

from policyc.ir.policy import Policy


@dataclass(frozen=True, slots=True)
class ObjectChanges:
    """The changed policies, sorted by title, and the consequences in sentences.

    `changed`, `renamed` and `reordered` are pairs of the policy before and after. A renamed policy has
    the same content in the same namespace under another name. A reordered one is equal, but precedes
    other policies of its tier than before. `summary` has a sentence for each namespace, the most severe
    first.
    """

    added: tuple[Policy, ...] = ()
    removed: tuple[Policy, ...] = ()
    changed: tuple[tuple[Policy, Policy], ...] = ()
    renamed: tuple[tuple[Policy, Policy], ...] = ()
    reordered: tuple[tuple[Policy, Policy], ...] = ()
    summary: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """What happened, and to how many policies; only what happened."""
        found = (
            ("added", len(self.added)),
            ("removed", len(self.removed)),
            ("changed", len(self.changed)),
            ("renamed", len(self.renamed)),
            ("reordered", len(self.reordered)),
        )
        return tuple((what, number) for what, number in found if number)

    def __bool__(self) -> bool:
        return bool(self.counts)


NO_CHANGES = ObjectChanges()
