# SPDX-License-Identifier: Apache-2.0
"""Frames of a pod that reaches itself through a Service."""

from tests.kernel.support.answers import REDIRECT
from tests.kernel.support.node_under_test import (
    A,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.service_yaml import VIP

RESERVED = Host(VIP.mac, "169.254.255.1", "fd70:6353:6870::1")


def comes_back(node: NodeUnderTest, sent: bytes) -> bytes:
    verdict, found = node.answered("a", sent)
    assert verdict == REDIRECT
    return found


def request(payload: Payload, family: int) -> bytes:
    """A packet of the pod to the Service, as the pod gets it."""
    return frame(RESERVED, A, payload, family=family)


def reply(payload: Payload, family: int) -> bytes:
    """The pod's reply to that."""
    return frame(A, RESERVED, payload, family=family)


def from_vip(payload: Payload, family: int) -> bytes:
    return frame(VIP, A, payload, family=family)
