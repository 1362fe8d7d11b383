# SPDX-License-Identifier: Apache-2.0
"""Objects in both `-f` and `--cluster`, which must agree: tiers, network sets and host endpoints."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from policyc.compiler.frontend.calico import codes
from policyc.compiler.frontend.found import AddressSet, CalicoTier, Found
from policyc.ir.diagnostics import Report
from policyc.ir.hosts import HostEndpoint
from policyc.ir.spans import Span

T = TypeVar("T")

CLUSTER = Span("--cluster", 0, 0)


def given_once(given: Found, others: Found, report: Report) -> Found:
    """Those of `others` that are not among `given`; the same name for another object is an error."""
    return Found(
        tiers=_once(given.tiers, others.tiers, _tier_name, report),
        address_sets=_once(given.address_sets, others.address_sets, _set_name, report),
        hosts=_once(given.hosts, others.hosts, _host_name, report),
        cidr_groups=_others(given.cidr_groups, others.cidr_groups),
        deletions=_others(given.deletions, others.deletions),
        intents=_others(given.intents, others.intents),
    )


def _once(
    given: Sequence[T], others: Iterable[T], name: Callable[[T], str], report: Report
) -> tuple[T, ...]:
    """Objects that need a name of their own."""
    names = {name(item) for item in given}
    found = []
    for item in _others(given, others):
        if name(item) in names:
            finding = codes.DIFFERENT_IN_CLUSTER.at(CLUSTER, "metadata.name", name=name(item))
            report.add(finding.help("keep one of the two, or take the snapshot again"))
        else:
            found.append(item)
    return tuple(found)


def _others(given: Sequence[T], others: Iterable[T]) -> tuple[T, ...]:
    return tuple(item for item in others if item not in given)


def _tier_name(tier: CalicoTier) -> str:
    return f"the tier {tier.name}"


def _set_name(found: AddressSet) -> str:
    return f"the addresses of {found.title}" if found.title.startswith("Host") else found.title


def _host_name(host: HostEndpoint) -> str:
    return f"HostEndpoint {host.name}"
