# SPDX-License-Identifier: Apache-2.0
"""Failsafe ports: the defaults, and the ports given to a load."""

import pytest

from policyc.ir.policy import Direction
from policyc.ir.semantics import FAILSAFE_PORTS
from policyc.ir.services import Protocol
from policyc.runtime.failsafes import DEFAULT, Failsafes, read_ports
from policyc.runtime.maps.failsafe_ports import INBOUND, OUTBOUND

NAMES = {protocol.value: protocol.name.lower() for protocol in Protocol}


@pytest.mark.parametrize(
    ("direction", "ports"),
    [(Direction.INGRESS, DEFAULT.inbound), (Direction.EGRESS, DEFAULT.outbound)],
)
def test_the_default_failsafe_ports_are_those_of_the_semantics(
    direction: Direction, ports: tuple[str, ...]
) -> None:
    assert set(ports) == {f"{NAMES[number]}:{port}" for number, port in FAILSAFE_PORTS[direction]}


def test_ports_are_read_as_felix_reads_them() -> None:
    assert read_ports("tcp:22, UDP:68,443,sctp:1,tcp:0022", "inbound") == (
        "tcp:22",
        "udp:68",
        "tcp:443",
        "sctp:1",
    )
    assert read_ports("none", "outbound") == ()


def test_each_port_is_one_entry_per_direction() -> None:
    entries = list(Failsafes(("tcp:22",), ("udp:53", "tcp:22")).entries())
    assert entries == [(6, 22, INBOUND), (17, 53, OUTBOUND), (6, 22, OUTBOUND)]


def test_open_failsafe_ports_are_reported() -> None:
    assert Failsafes(("tcp:22", "udp:68"), ()).describe() == "inbound tcp:22, udp:68; outbound none"
