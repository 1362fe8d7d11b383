# SPDX-License-Identifier: Apache-2.0
"""Frames to and from a node under host policy."""

from typing import Any

import pytest

from tests.kernel.support.node_under_test import (
    NODE,
    UPLINK,
    WORLD,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.table_policy import TablePolicy

families = pytest.mark.parametrize("family", [4, 6])

INTERFACE = {
    "name": "n1-all", "node": "node-1", "interface": "*", "labels": {}, "addresses": [],
    "failsafes": True,
}  # fmt: skip


def under_host_policy(**interface: Any) -> TablePolicy:
    """Host policy in both directions: everything that no rule allows is denied."""
    return TablePolicy(pods=("a", "b", "c", "host"), host=INTERFACE | interface)


def loaded(node: NodeUnderTest, policy: TablePolicy | None = None, **more: Any) -> None:
    node.load(under_host_policy() if policy is None else policy, uplinks=[UPLINK], **more)


def comes(node: NodeUnderTest, payload: Payload, family: int, src: Host = WORLD) -> bool:
    """Whether a packet from outside reaches the node's stack, as it was sent."""
    sent = frame(src, NODE, payload, family=family)
    came = node.comes_in(sent)
    assert came in (None, sent)
    return came is not None


def goes(node: NodeUnderTest, payload: Payload, family: int, dst: Host = WORLD) -> bool:
    """Whether the node's own packet leaves it, as it was sent."""
    sent = frame(NODE, dst, payload, family=family)
    out = node.goes_out(sent, pod=None)
    assert out in (None, sent)
    return out is not None
