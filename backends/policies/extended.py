# SPDX-License-Identifier: Apache-2.0
"""Target policyc.dev/v1alpha1 ExtendedPolicy: any number of tiers, nearly every construct of the IR.

A section isolates, and a tier of ExtendedPolicies denies what it isolates. If a tier means exactly that,
its policies are written as they are. Otherwise, per direction, the defaults become rules after all
others, and a last policy for all pods passes the rest on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from policyc.backends.policies.expressions import home_of, simplified, subject_text
from policyc.backends.policies.normal_form import UnsayableError
from policyc.backends.policies.rule_language import rule_text
from policyc.backends.policies.target import (
    Inexpressible,
    InexpressibleError,
    Names,
    Object,
    of_policy,
    of_rule,
)
from policyc.grammar.layout import lay_out_rules
from policyc.ir.passes.explicit import (
    DEFAULT,
    DENIES,
)
from policyc.ir.policy import (
    ALWAYS,
    NEVER,
    Action,
    Condition,
    Direction,
    Policy,
    PolicySet,
    Tier,
    TierMode,
)
from policyc.ir.selectors import as_condition

STEP = 100
"""The gap between the numbers of two tiers."""
BUILT_IN = (1_000, 1_000_000, 10_000_000)
"""The numbers of other kinds' tiers, which are refused (G48)."""
_ORDERS = 10
_PASSES = "passes"
_DECIDES_THE_REST = frozenset(action.value for action in Action if not action.goes_on)
"""Rules that consist of an action alone."""


def to_extended_policies(policies: PolicySet) -> list[Object]:
    """ExtendedPolicies with the same meaning; raises InexpressibleError."""
    writer = _Writer()
    numbers = (STEP * at for at in range(1, 2 * BUILT_IN[-1]) if STEP * at not in BUILT_IN)
    objects = [
        each
        for tier, number in zip((t for t in policies.tiers if t.policies), numbers, strict=False)
        for each in writer.tier(tier, number)
    ]
    if writer.found:
        raise InexpressibleError(writer.found)
    return objects


@dataclass(frozen=True, slots=True)
class _Line:
    """A rule as text."""

    is_deny: bool
    text: str


Lines = dict[Direction, list[_Line]]


@dataclass(slots=True)
class _Draft:
    """A policy, or a part of one: its rules by section. `is_last`: its policy's last part."""

    policy: Policy
    subject: Condition
    home: str
    sections: Lines
    suffix: str = ""
    is_last: bool = True


@dataclass(slots=True)
class _Piece:
    """A future object: its name, its subject, and the text of each of its sections."""

    name: str
    subject: Condition
    home: str
    sections: dict[Direction, list[str]] = field(default_factory=dict)


class _Writer:
    """Writes tiers; inexpressible rules are collected in `found`."""

    def __init__(self) -> None:
        self.found: list[Inexpressible] = []
        self._names = Names()

    def tier(self, tier: Tier, number: int) -> Iterator[Object]:
        """The tier's policies in order, at a number of its own."""
        read = [draft for policy in tier.policies if (draft := self._read(policy)) is not None]
        if self.found:
            return
        pieces = _pieces(tier, _in_order(tier.mode, read))
        for at, piece in enumerate(pieces):
            spec: Object = {"tier": number}
            if len(pieces) > 1:
                spec["order"] = _ORDERS * (at + 1)
            yield self._object(piece, spec)

    def _object(self, piece: _Piece, spec: Object) -> Object:
        metadata = {"name": self._names.name(piece.name, piece.home)}
        if piece.home:
            metadata["namespace"] = piece.home
        text = "".join(
            f"{direction.value}:\n" + "".join(f"{line}\n" for line in piece.sections[direction])
            for direction in Direction
            if direction in piece.sections
        )
        spec["appliesTo"] = subject_text(piece.subject, piece.home)
        spec["rules"] = lay_out_rules(text)
        return {
            "apiVersion": "policyc.dev/v1alpha1",
            "kind": "ExtendedPolicy",
            "metadata": metadata,
            "spec": spec,
        }

    def _read(self, policy: Policy) -> _Draft | None:
        """The policy with its rules as text; None if it selects no pod."""
        if policy.hosts != NEVER:
            self.found.append(of_policy(policy, "it selects host interfaces"))
        subject = simplified(as_condition(policy.subject))
        if subject == NEVER:
            return None
        home = home_of(subject)
        try:
            subject_text(subject, home)
        except UnsayableError as failure:
            self.found.append(of_policy(policy, f"in its subject, {failure}"))
            return None
        lines = {d: list(self._lines(policy, d, home)) for d in Direction}
        return _Draft(policy, subject, home, lines)

    def _lines(self, policy: Policy, direction: Direction, home: str) -> Iterator[_Line]:
        for rule in policy.rules(direction):
            try:
                text = rule_text(rule, direction, home)
            except UnsayableError as failure:
                self.found.append(of_rule(policy, rule, str(failure)))
                continue
            if text is not None:
                yield _Line(rule.action.is_deny, text)


def _in_order(mode: TierMode, drafts: list[_Draft]) -> list[_Draft]:
    """The drafts in evaluation order for first match: denies first, if they win."""
    if mode is TierMode.FIRST_MATCH or not any(_denies_late(drafts, d) for d in Direction):
        return drafts
    first, rest = [], []
    for draft in drafts:
        denies, others = (_those(draft.sections, is_deny) for is_deny in (True, False))
        if not any(denies.values()):
            rest.append(draft)
        elif not any(others.values()):
            first.append(draft)
        else:
            first.append(_Draft(draft.policy, draft.subject, draft.home, denies, DENIES, False))
            rest.append(_Draft(draft.policy, draft.subject, draft.home, others))
    return [*first, *rest]


def _denies_late(drafts: list[_Draft], direction: Direction) -> bool:
    """Whether a deny comes after a rule that is not a deny."""
    kinds = [line.is_deny for draft in drafts for line in draft.sections[direction]]
    return kinds != sorted(kinds, reverse=True)


def _those(sections: Lines, is_deny: bool) -> Lines:
    return {d: [line for line in sections[d] if line.is_deny is is_deny] for d in Direction}


def _pieces(tier: Tier, drafts: list[_Draft]) -> list[_Piece]:
    """The objects of a tier, with its defaults."""
    direct = {d for d in Direction if _is_direct(tier, drafts, d)}
    pieces = [piece for draft in drafts if (piece := _piece(draft, direct)).sections]
    defaults: list[_Piece] = []
    if tier.unmatched is not Action.PASS:
        text = tier.unmatched.value
        defaults = [piece for draft in drafts for piece in _default(draft, direct, text)]
    return [*pieces, *defaults, *_passes(tier, pieces, defaults, set(Direction) - direct)]


def _is_direct(tier: Tier, drafts: list[_Draft], direction: Direction) -> bool:
    """Whether policies isolate exactly where they have rules, and isolated traffic is denied."""
    return tier.unmatched is Action.DENY and all(
        direction in draft.policy.isolates for draft in drafts if draft.sections[direction]
    )


def _piece(draft: _Draft, direct: set[Direction]) -> _Piece:
    """The draft with a section for each direction in which it has rules, or must deny the rest."""
    texts = {d: [line.text for line in lines] for d, lines in draft.sections.items() if lines}
    if draft.is_last:
        texts |= {d: [] for d in direct & draft.policy.isolates if d not in texts}
    return _Piece(_name(draft, draft.suffix), draft.subject, draft.home, texts)


def _default(draft: _Draft, direct: set[Direction], text: str) -> Iterator[_Piece]:
    """The default for the policy's isolated traffic, if a section alone would not express it."""
    denied = draft.policy.isolates - direct
    if draft.is_last and denied:
        sections = {direction: [text] for direction in denied}
        yield _Piece(_name(draft, DEFAULT), draft.subject, draft.home, sections)


def _name(draft: _Draft, suffix: str) -> str:
    policy = draft.policy
    outside = policy.namespace if policy.namespace != draft.home else ""
    return ".".join(filter(None, (outside, policy.name))) + (f"-{suffix}" if suffix else "")


def _passes(
    tier: Tier, pieces: list[_Piece], defaults: list[_Piece], directions: set[Direction]
) -> Iterator[_Piece]:
    """The rules that pass the rest on: a last rule of the only piece, or a policy for all."""
    last: dict[Direction, list[str]] = {}
    for direction in directions:
        having = [piece for piece in (*pieces, *defaults) if direction in piece.sections]
        if len(having) == 1:
            texts = having[0].sections[direction]
            texts += [] if texts[-1] in _DECIDES_THE_REST else [Action.PASS.value]
        elif having:
            last[direction] = [Action.PASS.value]
    if last:
        yield _Piece(f"{tier.name}-{_PASSES}", ALWAYS, "", last)
