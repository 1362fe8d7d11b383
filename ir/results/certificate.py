# SPDX-License-Identifier: Apache-2.0
"""The result of `policyc equiv`: a certificate that two policy sets are equal, or the difference.

Data only.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from policyc.ir.results.common import OpaquePart, UniverseUsed
from policyc.ir.results.diff import NONE_FOUND, Counts, Difference


class Equivalence(Enum):
    """Whether both sides give the same verdicts at both ends of every flow."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Obligation:
    """A goal that no flow may satisfy.

    `digest` is the SHA-256 of its SMT-LIB text, `answers` are (solver, version, answer).
    """

    what: str
    digest: str
    answers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class InputDigest:
    """A file of one side: `side` is `A`, `B` or `cluster`, `path` as it was given."""

    side: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the statement of a certificate depends on, beside the inputs."""

    universe: Literal["cluster", "symbolic"]
    ignore_effects: bool
    audit: bool
    pod_cidrs: tuple[str, ...]
    """Those of `--pod-cidr`, in order."""
    profile_a: str
    profile_b: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """The statement that was proved, its inputs and universe, and the solvers.

    `settings` are the (name, value) that the statement depends on, as text. `differences` are the
    regions shown, `counts` count all that were found. `checked` are the parts of an earlier certificate
    that were confirmed, None if no certificate was given; `faults` are the parts that were not
    confirmed. `opaque` are the rules with a requirement that policyc cannot decide, `possible` the
    possible differences because of them.
    """

    result: Equivalence
    before: str
    after: str
    universe: UniverseUsed
    method: str
    settings: Settings
    inputs: tuple[InputDigest, ...]
    obligations: tuple[Obligation, ...]
    solvers: tuple[tuple[str, str], ...]
    differences: tuple[Difference, ...] = ()
    counts: Counts = NONE_FOUND
    possible: tuple[Difference, ...] = ()
    opaque: tuple[OpaquePart, ...] = ()
    undecided: str = ""
    checked: str | None = None
    faults: tuple[str, ...] = ()
