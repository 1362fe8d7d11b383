# SPDX-License-Identifier: Apache-2.0
"""A lab from start to end: build it, prepare its node, send the probes, compare."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from policyc.runtime.lab.matrix import Comparison, compare
from policyc.runtime.lab.probes import Observation, Outcome, Probe
from policyc.runtime.lab.topology import EXTERNAL, External, Lab, LabEndpoint, LabNode
from policyc.runtime.lab.traffic import send
from policyc.runtime.lab.wiring import Pair


@dataclass(frozen=True, slots=True)
class Result:
    """What a run observed, how that compares, and how long each step took, in seconds."""

    seen: Mapping[Probe, Observation]
    comparison: Comparison
    build_seconds: float
    prepare_seconds: float  # spent in `before_traffic`
    traffic_seconds: float


def run_lab(
    endpoints: Sequence[LabEndpoint],
    probes: Iterable[Probe],
    expected: Mapping[Probe, Outcome],
    before_traffic: Callable[[LabNode], None],
    *,
    externals: Sequence[External] = (EXTERNAL,),
    node: str = "node-1",
    pair: Pair = "veth",
) -> Result:
    """Build a lab, call `before_traffic` with its node, send `probes`, compare with `expected`.

    `before_traffic` runs in this process and namespace; it uses `LabNode.run_in` for work on the node.
    Everything is removed before this returns or raises.
    """
    asked = tuple(probes)
    with Lab(endpoints, externals=externals, node=node, pair=pair) as lab:
        built = time.monotonic()
        before_traffic(lab.node)
        prepared = time.monotonic()
        seen = send(lab.ends, asked)
        sent = time.monotonic()
    return Result(seen, compare(expected, seen), lab.seconds, prepared - built, sent - prepared)
