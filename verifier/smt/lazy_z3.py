# SPDX-License-Identifier: Apache-2.0
"""Z3, loaded when the first term is made: a run whose questions are all in a ledger never loads it.

Loading takes 50 ms of CPU. `from policyc.verifier.smt.lazy_z3 import z3` stands for `import z3`.
"""

import importlib
from typing import Any


class _WhenUsed:
    """The module, by its attributes; each is resolved once."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(importlib.import_module("z3"), name)
        setattr(self, name, found)
        return found


z3: Any = _WhenUsed()
