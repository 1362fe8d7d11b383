# SPDX-License-Identifier: Apache-2.0
"""Combinations of policies of several APIs that are not allowed (semantics B31, F46, F47)."""

from collections.abc import Iterable, Sequence

from policyc.compiler.frontend import codes_several_apis as codes
from policyc.compiler.frontend.checks.equal_priorities import check_priorities
from policyc.compiler.frontend.lowered import (
    CLUSTER_NETWORK_POLICY,
    CalicoSlot,
    CiliumSlot,
    Lowered,
    Profile,
)
from policyc.ir.diagnostics import Code, Report

_OLDER = frozenset({"AdminNetworkPolicy", "BaselineAdminNetworkPolicy"})


def check_together(lowered: Sequence[Lowered], profile: Profile | None, report: Report) -> None:
    """Report combinations that cannot be one policy set; `profile` None is the default profile."""
    calico = _first(item for item in lowered if isinstance(item.slot, CalicoSlot))
    cilium = _first(item for item in lowered if isinstance(item.slot, CiliumSlot))
    if calico is not None and cilium is not None:
        _report(codes.CALICO_WITH_CILIUM, calico, cilium, report)
    for wrong, asked, other in (
        (calico, Profile.CALICO, "Calico"),
        (cilium, Profile.CILIUM, "Cilium"),
    ):
        if wrong is not None and profile not in (None, asked):
            assert profile is not None
            found = codes.WRONG_PROFILE.at(
                wrong.policy.origin.span,
                "kind",
                profile=profile.value,
                kind=wrong.policy.kind,
                owner=other,
            )
            report.add(found.help(f"--profile {asked.value} is the default where there is one"))
    older = _first(item for item in lowered if item.policy.kind in _OLDER)
    newer = _first(item for item in lowered if item.policy.kind == CLUSTER_NETWORK_POLICY)
    if older is not None and newer is not None:
        _report(codes.ADMIN_WITH_CLUSTER, older, newer, report)
    check_priorities(lowered, report)


def _first(found: Iterable[Lowered]) -> Lowered | None:
    return next(iter(found), None)


def _report(code: Code, one: Lowered, other: Lowered, report: Report) -> None:
    where = one.policy.origin.span
    finding = code.at(where, "kind", kind=one.policy.title, other=other.policy.title)
    report.add(finding.note(other.policy.origin.span, f"{other.policy.title} is here"))
