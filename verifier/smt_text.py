# SPDX-License-Identifier: Apache-2.0
"""Z3 assertions as SMT-LIB text that other solvers read.

Z3 writes a conjunction of one part as `(and x)` and one of none as `and`, which SMT-LIB does not have;
they become `x` and `true`, and likewise for `or`.
"""

import re
from collections.abc import Sequence

import z3

from policyc.verifier.terms import Term

_TOKEN = re.compile(r'\|[^|]*\||"(?:[^"]|"")*"|;[^\n]*|[()]|[^\s()|";]+')
_LEFT_ASSOCIATIVE = ("and", "or", "xor", "bvand", "bvor", "bvxor", "bvadd", "bvmul", "concat")
_EMPTY = {"and": "true", "or": "false"}
_STRINGS = re.compile(r"^(?:String|Seq|RegLan|str\..+|re\..+|seq\..+|\".*\")$", re.DOTALL)


def smt_text(assertions: Sequence[Term]) -> str:
    """The declarations and assertions, and no `(check-sat)`."""
    solver = z3.Solver()
    solver.add(*assertions)
    return without_single_parts(str(solver.to_smt2()).replace("(check-sat)", ""))


def without_single_parts(text: str) -> str:
    """The text with `(and x)` written as `x`, and likewise for all that wants two parts or more."""
    written: list[str] = []
    opened: list[list[int]] = []  # where each open list begins, and how many items it has so far
    for token in _TOKEN.findall(text):
        if token.startswith(";"):
            continue
        if token == "(":
            if opened:
                opened[-1][1] += 1
            opened.append([len(written), 0])
        elif token == ")":
            start, items = opened.pop()
            if items == 2 and written[start + 1] in _LEFT_ASSOCIATIVE:
                written[start] = written[start + 1] = ""
                continue
        elif opened:
            token = _EMPTY.get(token, token) if opened[-1][1] else token
            opened[-1][1] += 1
        written.append(token)
    return " ".join(filter(None, written))


def has_strings(text: str) -> bool:
    """Whether the text speaks of strings, which not every solver knows."""
    return any(_STRINGS.match(token) for token in _TOKEN.findall(text))
