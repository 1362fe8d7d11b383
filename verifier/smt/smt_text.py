# SPDX-License-Identifier: Apache-2.0
"""Z3 assertions as SMT-LIB text that other solvers read.

Z3 writes a conjunction of one part as `(and x)` and one of no parts as `and`, which SMT-LIB does not
have. They become `x` and `true`, and likewise for `or`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import z3

from policyc.verifier.smt.terms import Term

_TOKEN = re.compile(r'\|[^|]*\||"(?:[^"]|"")*"|;[^\n]*|[()]|[^\s()|";]+')
_LEFT_ASSOCIATIVE = ("and", "or", "xor", "bvand", "bvor", "bvxor", "bvadd", "bvmul", "concat")
_EMPTY = {"and": "true", "or": "false"}
_STRINGS = re.compile(r"^(?:String|Seq|RegLan|str\..+|re\..+|seq\..+|\".*\")$", re.DOTALL)


def smt_text(assertions: Sequence[Term]) -> str:
    """The declarations and assertions, and no `(check-sat)`."""
    solver = z3.Solver()
    solver.add(*assertions)
    return without_single_parts(str(solver.to_smt2()).replace("(check-sat)", ""))


def digest_of(assertions: Sequence[Term]) -> str:
    """The SHA-256 of the terms by their structure: the same in every run, whatever names Z3 gives."""
    digests: dict[int, bytes] = {}
    for assertion in assertions:
        for term in _children_first(assertion, digests):
            declared = term.decl()
            head = (declared.name(), str(term.sort()), *map(str, declared.params()))
            if z3.is_bv_value(term) or z3.is_string_value(term):
                head = (*head, str(term))
            parts = [digests[child.get_id()] for child in term.children()]
            digests[term.get_id()] = sha256("\x1f".join(head).encode() + b"".join(parts)).digest()
    whole = sha256(b"".join(digests[assertion.get_id()] for assertion in assertions))
    return whole.hexdigest()


def _children_first(root: Term, known: Mapping[int, bytes]) -> Iterator[Term]:
    """Every new part of a term, each after its own parts."""
    waiting = [(root, False)]
    while waiting:
        term, is_ready = waiting.pop()
        if term.get_id() in known:
            continue
        if is_ready:
            yield term
            continue
        waiting.append((term, True))
        waiting += [(child, False) for child in term.children()]


def without_single_parts(text: str) -> str:
    """The text with `(and x)` written as `x`; likewise for all operators of two or more parts."""
    written: list[str] = []
    opened: list[list[int]] = []  # the start of each open list, and the number of its items so far
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
    """Whether the text uses strings, which not every solver supports."""
    return any(_STRINGS.match(token) for token in _TOKEN.findall(text))
