# SPDX-License-Identifier: Apache-2.0
"""Types that the results of several commands share: places, witnesses, findings, evidence. Data only."""

from dataclasses import dataclass
from typing import Literal

from policyc.ir.diagnostics import Note, Severity
from policyc.ir.semantics import Verdict
from policyc.ir.spans import Span
from policyc.ir.universe import Flow


@dataclass(frozen=True, slots=True)
class UniverseUsed:
    """What an answer ranges over, and the same in words: `12 pods of examples/online-shop/cluster`."""

    kind: Literal["cluster", "symbolic"]
    words: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """How an answer was certified.

    `method` is in words (`one query over the whole formula`), `solvers` are (name, version),
    `queries` the solver's, `replayed_witnesses` the flows that the reference semantics confirmed.
    """

    method: str
    solvers: tuple[tuple[str, str], ...] = ()
    queries: int = 0
    replayed_witnesses: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A rule or policy that decided, or is responsible.

    `words` is how people call the whole of it (`shop/web spec.ingress[0]`), `path` the field's path in
    its object, empty for a whole object.
    """

    span: Span
    path: str
    words: str


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A rule that asks for something policyc does not decide; answers depend on it (`ir/bounds.py`).

    `asks` is what is not decided, in words. `side` is `OLD` or `NEW`, empty where there is only one.
    """

    place: Place
    asks: tuple[str, ...]
    side: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of how a witness meets its verdict; `place` None where no input says so (a default)."""

    place: Place | None
    text: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A concrete flow and what the reference semantics say about it.

    `verdicts` are labelled: `before` and `after` of a diff, the empty label where there is only one
    policy set.
    """

    flow: Flow
    verdicts: tuple[tuple[str, Verdict], ...]
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to be said about the input, with its reasons.

    `code` is stable and documented, `message` one sentence, `explanation` may be longer, `hint` is a
    suggested fix. `key` is the identity that survives line moves (see `stable_key`).
    """

    code: str
    severity: Severity
    message: str
    explanation: str
    place: Place
    key: str
    notes: tuple[Note, ...] = ()
    hint: str = ""
    witness: Witness | None = None


def stable_key(kind: str, namespace: str, name: str, path: str, what: str = "") -> str:
    """An identity of something in an object, the same wherever the object stands in its file.

    `path` is the field's path in the object, `what` tells apart several things said of one field.
    """
    return "|".join((kind, namespace, name, path, what))
