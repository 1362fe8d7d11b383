# SPDX-License-Identifier: Apache-2.0
"""Faults of the hooks: no lemma covers them, so a packet must reveal each one.

Each sequence of packets runs twice. It passes on the hooks of policyc and fails on the wrong ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.support.fragment_frames import (
    first,
    later,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.objects import DATAPATH
from tests.kernel.support.packets import (
    ACK,
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.table_policy import (
    tcp_port,
    udp_port,
)

pytestmark = [pytest.mark.kernel, pytest.mark.fresh, pytest.mark.native]
families = pytest.mark.parametrize("family", [4, 6])


def is_connection_ended(node: NodeUnderTest, objects: Path, family: int) -> bool:
    """Whether a connection that was allowed is denied by the next load."""
    there = frame(A, B, tcp(1000, 80, SYN), family=family)
    back = frame(B, A, tcp(80, 1000, SYN | ACK), family=family)
    node.load(node.policy().allow("a", "b", tcp_port(80)), objects=objects)
    assert node.sent_by("a", there) and node.sent_to("b", there, came_in="pca")
    assert node.sent_by("b", back) and node.sent_to("a", back, came_in="pcb")
    node.load(node.policy(), objects=objects)
    return not node.sent_by("a", frame(A, B, tcp(1000, 80, ACK), family=family))


def is_datagram_ended(node: NodeUnderTest, objects: Path, family: int) -> bool:
    """Whether later fragments are denied, where the load after the first one denies it."""
    node.load(node.policy().allow("a", "b", udp_port(53)), objects=objects)
    assert node.sent_by("a", first(A, B, family)) and node.sent_by("a", later(A, B, family))
    node.load(node.policy(), objects=objects)
    return not node.sent_by("a", later(A, B, family))


@dataclass(frozen=True)
class InHooks:
    """Another text in a header, and a story whose end is right on our hooks alone."""

    header: str
    right: str
    wrong: str
    is_right: Callable[[NodeUnderTest, Path, int], bool]


FAULTS = {
    "a connection of an older epoch is fresh": InHooks(
        "ct.h",
        "match.is_fresh = ct->epoch == flow->epoch && pc_ct_is_decided(ct);",
        "match.is_fresh = pc_ct_is_decided(ct);",
        is_connection_ended,
    ),
    "every flow is of one epoch": InHooks(
        "generation.h", "flow->epoch = state >> 32;", "flow->epoch = 1;", is_connection_ended
    ),
    "fragments of an older epoch go on": InHooks(
        "fragments.h", " || first->epoch != flow->epoch", "", is_datagram_ended
    ),
}


def test_every_fault_is_of_the_hooks() -> None:
    """Only slow tests compile them, and they would notice a missing place last."""
    for fault in FAULTS.values():
        assert (DATAPATH / fault.header).read_text().count(fault.right) == 1


@pytest.mark.slow
@families
@pytest.mark.parametrize("name", FAULTS)
def test_a_packet_shows_the_fault(
    node: NodeUnderTest,
    variant: Callable[[str, dict[str, tuple[str, str]]], Path],
    family: int,
    name: str,
) -> None:
    fault = FAULTS[name]
    assert fault.is_right(node, node.objects, family), "the control"
    node.unload()
    wrong = variant("wrong", {fault.header: (fault.right, fault.wrong)})
    assert not fault.is_right(node, wrong, family)
