# SPDX-License-Identifier: Apache-2.0
"""The workloads of a cluster that policies isolate, and those that none isolates. Data only."""

from dataclasses import dataclass

from policyc.ir.policy import Direction


@dataclass(frozen=True, slots=True)
class Isolation:
    """One direction: the workloads that no policy isolates, as sorted `namespace/name`."""

    direction: Direction
    open: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """The isolation of `n_workloads` pods and workloads, one entry for each direction.

    A workload is isolated if traffic that no rule matches is denied. `host_network` are pods in the
    network of their host, to which policies do not apply (A21); `n_workloads` does not count them.
    """

    n_workloads: int
    directions: tuple[Isolation, ...]
    host_network: tuple[str, ...] = ()


def percent(part: int, whole: int) -> int:
    """The part in percent, rounded down: 100 means all. Of nothing, all is covered."""
    return 100 * part // whole if whole else 100
