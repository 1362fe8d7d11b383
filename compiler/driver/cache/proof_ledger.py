# SPDX-License-Identifier: Apache-2.0
"""The ledger: questions that earlier runs proved, kept in the build cache.

A question's text contains everything that its answer depends on (`verifier/decision/outcome.py`), so a
digest in the ledger means "this very term is unsatisfiable". The key of the ledger is the release of Z3
and the code that makes terms of questions: if either changes, everything is proved again.
"""

from dataclasses import field

from policyc.compiler.driver.cache.build_cache import (
    BuildCache,
    key_of,
    source_digest,
)
from policyc.compiler.driver.z3_release import z3_release
from policyc.ir.fast_dataclass import dataclass

_BYTES = 32
_KEPT = 4
"""The number of old questions kept per question of this run: other branches share the cache."""
_LEAST = 20_000


@dataclass
class ProofLedger:
    """The proved questions of one kind of run (its `context`)."""

    cache: BuildCache
    key: str
    _known: set[bytes] = field(default_factory=set)
    _asked: dict[bytes, None] = field(default_factory=dict)
    _is_new: bool = False

    def has(self, digest: bytes) -> bool:
        """Whether this question was proved, in this run or before."""
        found = digest in self._known
        if found:
            self._asked[digest] = None
        return found

    def add(self, digest: bytes) -> None:
        """Record that Z3 proved a question."""
        self._known.add(digest)
        self._asked[digest] = None
        self._is_new = True

    def close(self) -> None:
        """Write it, if this run proved anything: its own questions, and others up to a bound."""
        if not self._is_new:
            return
        room = max(_LEAST, _KEPT * len(self._asked)) - len(self._asked)
        others = sorted(self._known - self._asked.keys())[: max(room, 0)]
        self.cache.put(self.key, b"".join((*sorted(self._asked), *others)))


def open_ledger(cache: BuildCache, context: str) -> ProofLedger:
    """The ledger of runs that have the same context, such as the paths and options given."""
    code = source_digest("policyc.verifier", "policyc.ir")
    key = key_of("proved", code, z3_release(), context)
    data = cache.get(key) or b""
    known = {data[at : at + _BYTES] for at in range(0, len(data), _BYTES)}
    return ProofLedger(cache, key, known)
