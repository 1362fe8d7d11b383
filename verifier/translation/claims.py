# SPDX-License-Identifier: Apache-2.0
"""The claims of a lemma: conditions that must never hold."""

from dataclasses import dataclass

from policyc.verifier.bytecode.errors import UnmodelledError
from policyc.verifier.bytecode.pointers import Pointer, Value
from policyc.verifier.bytecode.values import Bits, Truth


@dataclass(frozen=True)
class Claim:
    """A condition that must never hold: in words, and as a term. `at` is the instruction concerned."""

    what: str
    never: Truth
    at: tuple[str, int] | None = None


def number_in(value: Value) -> Bits:
    """The bits of a stored value. UnmodelledError for a pointer."""
    if isinstance(value, Pointer):
        raise UnmodelledError("a pointer is stored where numbers are")
    return value
