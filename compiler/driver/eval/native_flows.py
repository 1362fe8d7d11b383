# SPDX-License-Identifier: Apache-2.0
"""Many flows evaluated by native code, where it agrees with the semantics.

Input: flows as columns. Output, for each flow: the numbers of the verdicts at its source and
destination, or none. None means that the reference semantics must decide: the verdict may depend on
unknown attributes, or the tables have no place for the flow. If the tables do not hold enough about some
rule, the reference semantics decide every flow.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from policyc.compiler.frontend.flows.columns import FlowColumns
from policyc.ir.decision import RuleEntry
from policyc.ir.errors import HostError, InternalError
from policyc.ir.policy import NEVER, Direction, Policy, PolicySet, Rule
from policyc.ir.semantics import (
    FROM_ITS_NODE,
    NEIGHBOURS,
    NOT_ISOLATED,
    OUTSIDE,
    TO_ITSELF,
    DecidedByRule,
    DeniedByDefault,
    EndVerdict,
)
from policyc.ir.tables import RESERVED_RULES

if TYPE_CHECKING:  # its dependencies may not be installed
    from policyc.backends.llvm.native import NativeEvaluator

BY_SEMANTICS = -1
"""In place of the number of a verdict: a flow that is left to the semantics."""
_LEAST_FLOWS = 1000
_LEAST_WORK = 100_000
"""Flows times policies (plus twenty) from which compiling pays: half a second of the semantics."""


@dataclass(frozen=True)
class NativeAnswers:
    """The verdicts on flow i are `verdicts[egress[i]]` and `verdicts[ingress[i]]`, or BY_SEMANTICS."""

    verdicts: list[EndVerdict]
    egress: list[int]
    ingress: list[int]


def is_worth_compiling(policies: PolicySet, n_flows: int) -> bool:
    """Whether native code evaluates so many flows sooner, compilation included."""
    n_policies = sum(len(tier.policies) for tier in policies.tiers)
    return n_flows >= _LEAST_FLOWS and n_flows * (n_policies + 20) >= _LEAST_WORK


def require_native() -> None:
    """HostError if the dependencies of native code are not installed."""
    missing = missing_for_native()
    if missing:
        raise HostError(
            f"native evaluation needs {missing}, which is not installed",
            "pip install llvmlite numpy, or remove --engine",
        )


def missing_for_native() -> str:
    """The missing ones of llvmlite and numpy; empty if both are installed."""
    for module in ("llvmlite.binding", "numpy"):
        try:
            import_module(module)
        except ImportError:
            return module.partition(".")[0]
    return ""


def why_not_native(policies: PolicySet, *, with_effects: bool = True) -> str:
    """The requirements of rules that tables do not hold; empty if there are none.

    Without effects, notes of rules beside an action do not matter.
    """
    for tier in policies.tiers:
        titles = [policy.title for policy in tier.policies]
        if len(set(titles)) < len(titles):
            return f"two policies of the tier {tier.name} have the same name"
        for policy in tier.policies:
            if policy.hosts != NEVER:
                return f"{policy.title} selects host interfaces"
            for rule in (*policy.ingress, *policy.egress):
                if what := _beyond_tables(rule, with_effects):
                    return f"{policy.title} {rule.origin.path} has {what}"
    return ""


def _beyond_tables(rule: Rule, with_effects: bool) -> str:
    if rule.action.goes_on:
        return f"`{rule.action.value}`"
    if rule.source_ports is not None:
        return "source ports"
    if not with_effects:
        return ""
    if rule.limit is not None:
        return "`limit`"
    return "`log`" if rule.log else ""


def evaluate_natively(policies: PolicySet, flows: FlowColumns) -> NativeAnswers:
    """The verdicts of all flows. Needs `why_not_native` to be empty, and llvmlite and numpy."""
    import numpy as np

    from policyc.compiler.driver.eval.native_ends import FlowEnds
    from policyc.compiler.driver.eval.native_places import WordsOfFlows

    found = WordsOfFlows(FlowEnds(policies, flows.ends), flows)
    reading = _Words(policies, found.native)
    verdicts: list[EndVerdict] = []
    columns = []
    for direction, words in ((Direction.EGRESS, found.egress), (Direction.INGRESS, found.ingress)):
        different, which = np.unique(words[found.is_answered], return_inverse=True)
        numbers = np.full(len(flows), BY_SEMANTICS, dtype=np.int64)
        numbers[found.is_answered] = which + len(verdicts)
        verdicts += [reading.verdict(direction, word) for word in different.tolist()]
        columns.append(numbers.tolist())
    return NativeAnswers(verdicts, *columns)


class _Words:
    """Verdict words as the verdicts of the semantics."""

    def __init__(self, policies: PolicySet, native: "NativeEvaluator") -> None:
        from policyc.backends.llvm.batch import Special

        self.native = native
        self.special = {
            Special.OUTSIDE: OUTSIDE,
            Special.TO_ITSELF: TO_ITSELF,
            Special.NEIGHBOURS: NEIGHBOURS,
            Special.FROM_ITS_NODE: FROM_ITS_NODE,
        }
        self.policies: dict[tuple[str, str], Policy] = {
            (tier.name, policy.title): policy for tier in policies.tiers for policy in tier.policies
        }

    def verdict(self, direction: Direction, word: int) -> EndVerdict:
        """The verdict that a word stands for at the end of this direction."""
        special = self.native.special(word)
        if special is not None:
            return self.special[special]
        entry = self.native.entry(word)
        if entry == RESERVED_RULES[0]:
            return NOT_ISOLATED
        return EndVerdict(entry.action, self._decider(entry, direction))

    def _decider(self, entry: RuleEntry, direction: Direction) -> DecidedByRule | DeniedByDefault:
        policies = tuple(self.policies[entry.tier, title] for title in entry.policies)
        match entry.kind:
            case "rule":
                return DecidedByRule(entry.tier, policies[0], direction, entry.index)
            case "default-deny":
                return DeniedByDefault(entry.tier, direction, policies)
            case _:
                raise InternalError(f"no flow of eval is decided by {entry.kind}")
