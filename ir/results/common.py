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
    """The universe of an answer, also in words: `12 pods of examples/online-shop/cluster`."""

    kind: Literal["cluster", "symbolic"]
    words: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The certification of an answer.

    `method` is in words (`one query over the whole formula`), `solvers` are (name, version), `queries`
    counts the solver's queries, `replayed_witnesses` the flows that the reference semantics confirmed.
    """

    method: str
    solvers: tuple[tuple[str, str], ...] = ()
    queries: int = 0
    replayed_witnesses: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A rule or policy that decided, or is responsible.

    `words` is the full name for people (`shop/web spec.ingress[0]`), `path` the field's path in its
    object, empty for a whole object.
    """

    span: Span
    path: str
    words: str


@dataclass(frozen=True, slots=True)
class OpaquePart:
    """A rule with a requirement that policyc cannot decide; answers depend on it (`ir/bounds.py`).

    `asks` is that requirement, in words. `side` is `OLD` or `NEW`, empty if there is only one side.
    """

    place: Place
    asks: tuple[str, ...]
    side: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One step to a witness's verdict; `place` is None if no input states it (a default)."""

    place: Place | None
    text: str


@dataclass(frozen=True, slots=True)
class Witness:
    """A concrete flow and the verdict of the reference semantics on it.

    `verdicts` are labelled: `before` and `after` of a diff, the empty label if there is only one policy
    set.
    """

    flow: Flow
    verdicts: tuple[tuple[str, Verdict], ...]
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement about the input, with its reasons.

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
    """The identity of a finding inside an object, independent of the object's position in its file.

    `path` is the field's path in the object, `what` distinguishes several findings about one field.
    """
    return "|".join((kind, namespace, name, path, what))
