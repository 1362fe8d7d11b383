# SPDX-License-Identifier: Apache-2.0
"""The table lookups that a reading of the plan makes: each once, with a variable for its word."""

from dataclasses import dataclass, field

from policyc.verifier.bytecode.nodes import Node
from policyc.verifier.bytecode.symbolic.environment import TableRead
from policyc.verifier.bytecode.symbolic.guards import Guard
from policyc.verifier.bytecode.term_domain import TermDomain
from policyc.verifier.bytecode.values import Bits


@dataclass
class Looks:
    """The lookups of a reading, each once."""

    domain: TermDomain
    made: list[TableRead] = field(default_factory=list)
    _known: dict[tuple[str, Bits, Bits | None], Node] = field(default_factory=dict)

    def look(self, name: str, key: Bits, offset: Bits | None) -> Node:
        """The variable for the word found; as `TableRead` has it."""
        spot = (name, key, offset)
        found = self._known.get(spot)
        if found is None:
            title = f"reading {name} #{len(self.made)}"
            found = self.domain.variable(title, 0 if offset is None else 32)
            self._known[spot] = found
            self.made.append(TableRead(name, Guard(self.domain), key, offset, found))
        return found
