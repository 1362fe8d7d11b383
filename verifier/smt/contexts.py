# SPDX-License-Identifier: Apache-2.0
"""A fresh Z3 state, so that an answer does not depend on earlier questions.

A model depends on the numbers that Z3 gives to terms, and so on every term that was made before it.
Without a fresh state, work that is distributed over processes would find other witnesses than work in
one process.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import z3


@contextmanager
def terms_kept() -> Iterator[None]:
    """Whatever contexts begin inside, terms are made in the current context again afterwards."""
    before = getattr(z3.z3, "_main_ctx", None)
    try:
        yield
    finally:
        if hasattr(z3.z3, "_main_ctx"):
            z3.z3._main_ctx = before


def forget_terms() -> None:
    """Start a new context: terms made before must not meet terms made after.

    Z3 has no call for it. If a later Z3 module is built differently, only the models differ.
    """
    if hasattr(z3.z3, "_main_ctx"):
        z3.z3._main_ctx = None
