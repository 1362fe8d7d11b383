# SPDX-License-Identifier: Apache-2.0
"""Policies of every API -> the tiers of one PolicySet, in the order of evaluation (semantics F46, F47).

Built-in tiers have the orders that Calico gives them in every profile, so that a Calico tier or one of
policyc's own can stand before, between or after them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

from policyc.compiler.frontend.found import CalicoTier
from policyc.compiler.frontend.lowered import (
    AdminSlot,
    BaselineSlot,
    CalicoSlot,
    CiliumSlot,
    ExtendedSlot,
    Lowered,
    NetworkPolicySlot,
    Profile,
    Slot,
)
from policyc.ir.errors import InternalError
from policyc.ir.policy import NETWORK_POLICY_TIER, Action, Policy, PolicySet, Tier, TierMode

ADMIN_ORDER = 1_000.0
DEFAULT_ORDER = 1_000_000.0
BASELINE_ORDER = 10_000_000.0
BUILT_IN_ORDERS = (ADMIN_ORDER, DEFAULT_ORDER, BASELINE_ORDER)
ADMIN_TIER, CALICO_DEFAULT_TIER, BASELINE_TIER = "kube-admin", "default", "kube-baseline"
NETWORK_POLICY_ORDER = 1_000.0
"""The order of a NetworkPolicy among the policies of Calico's default tier (F47)."""


BUILT_IN_CALICO_TIERS = (
    CalicoTier(ADMIN_TIER, ADMIN_ORDER, Action.PASS),
    CalicoTier(CALICO_DEFAULT_TIER, DEFAULT_ORDER, Action.DENY),
    CalicoTier(BASELINE_TIER, BASELINE_ORDER, Action.PASS),
)

SortKey = tuple[float, str, str, str]
TierKey = tuple[float, str]
"""Order, then name."""


def profile_of(slots: Iterable[Slot]) -> Profile:
    """The profile that the kinds present require. Calico's beside Cilium's is the caller's error."""
    found = {type(slot) for slot in slots}
    if CalicoSlot in found:
        return Profile.CALICO
    return Profile.CILIUM if CiliumSlot in found else Profile.KUBERNETES


def assemble(
    lowered: Iterable[Lowered], profile: Profile, calico_tiers: Iterable[CalicoTier] = ()
) -> PolicySet:
    """The policies in their tiers; a tier without a policy is omitted, except NetworkPolicies'."""
    tiers = {tier.name: tier for tier in (*BUILT_IN_CALICO_TIERS, *calico_tiers)}
    place = _Places(profile, tiers)
    groups: dict[TierKey, list[tuple[SortKey, Policy]]] = {}
    frames: dict[TierKey, Callable[[tuple[Policy, ...]], Tier]] = {}
    if profile is not Profile.CALICO:
        key, frame = place.of_default()
        groups[key], frames[key] = [], frame
    for item in lowered:
        key, frame, sort_key = place.of(item)
        frames[key] = frame
        groups.setdefault(key, []).append((sort_key, item.policy))
    return PolicySet(
        tuple(
            frames[key](tuple(policy for _, policy in sorted(groups[key], key=lambda p: p[0])))
            for key in sorted(groups)
        )
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """The position of each slot in one profile."""

    profile: Profile
    tiers: Mapping[str, CalicoTier]

    def of_default(self) -> tuple[TierKey, Callable[[tuple[Policy, ...]], Tier]]:
        """The tier of NetworkPolicies if it is not a tier of Calico's: unordered, denies win (A3)."""
        frame = _frame(NETWORK_POLICY_TIER, TierMode.DENY_WINS, Action.DENY)
        return (DEFAULT_ORDER, NETWORK_POLICY_TIER), frame

    def of(self, item: Lowered) -> tuple[TierKey, Callable[[tuple[Policy, ...]], Tier], SortKey]:
        """(tier, its constructor, position within it) of one policy."""
        policy = item.policy
        by_name = (policy.namespace, policy.name, policy.kind)
        match item.slot:
            case AdminSlot(priority):
                return *_first_match(ADMIN_ORDER, ADMIN_TIER, Action.PASS), (priority, *by_name)
            case BaselineSlot(priority):
                key, frame = _first_match(BASELINE_ORDER, BASELINE_TIER, Action.PASS)
                return key, frame, (priority, *by_name)
            case NetworkPolicySlot() if self.profile is Profile.CALICO:
                named = (f"knp.default.{policy.name}", policy.namespace, policy.kind)
                return *self._calico(CALICO_DEFAULT_TIER), (NETWORK_POLICY_ORDER, *named)
            case NetworkPolicySlot() | CiliumSlot():
                return *self.of_default(), (0.0, *by_name)
            case CalicoSlot(tier, order):
                at = inf if order is None else order
                return *self._calico(tier), (at, policy.name, policy.namespace, policy.kind)
            case ExtendedSlot(tier, order):
                name = f"extended-{tier:.15g}"
                return *_first_match(tier, name, Action.DENY), (order, *by_name)

    def _calico(self, name: str) -> tuple[TierKey, Callable[[tuple[Policy, ...]], Tier]]:
        tier = self.tiers.get(name)
        if tier is None:
            raise InternalError(f"the tier {name!r} got past the validation")
        order = inf if tier.order is None else tier.order
        return _first_match(order, name, tier.unmatched)


def _first_match(
    order: float, name: str, unmatched: Action
) -> tuple[TierKey, Callable[[tuple[Policy, ...]], Tier]]:
    return (order, name), _frame(name, TierMode.FIRST_MATCH, unmatched)


def _frame(name: str, mode: TierMode, unmatched: Action) -> Callable[[tuple[Policy, ...]], Tier]:
    def made(policies: tuple[Policy, ...]) -> Tier:
        return Tier(name, mode, unmatched, policies)

    return made
