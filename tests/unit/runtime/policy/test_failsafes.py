# SPDX-License-Identifier: Apache-2.0
"""Failsafe ports: the defaults, and the ports given to a load."""

import sys

import pytest

from policyc.ir.policy import Direction
from policyc.ir.semantics import FAILSAFE_PORTS
from policyc.ir.services import Protocol
from policyc.runtime.errors import InputError
from policyc.runtime.failsafes import DEFAULT, MOST, Failsafes, read_ports

NAMES = {protocol.value: protocol.name.lower() for protocol in Protocol}


@pytest.mark.parametrize(
    ("direction", "ports"),
    [(Direction.INGRESS, DEFAULT.inbound), (Direction.EGRESS, DEFAULT.outbound)],
)
def test_the_usual_ones_are_those_that_eval_knows(
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


def test_each_port_is_one_key_of_the_map() -> None:
    keys = list(Failsafes(("tcp:22",), ("udp:53", "tcp:22")).entries(3))
    epoch = (3).to_bytes(4, sys.byteorder)
    ports = [b"\x00\x16\x06\x00", b"\x00\x35\x11\x01", b"\x00\x16\x06\x01"]
    assert keys == [epoch + port for port in ports]


def test_open_failsafe_ports_are_reported() -> None:
    assert Failsafes(("tcp:22", "udp:68"), ()).describe() == "inbound tcp:22, udp:68; outbound none"


def test_failsafe_ports_are_limited_to_the_map_size() -> None:
    assert len(read_ports(",".join(map(str, range(1, MOST + 1))), "inbound")) == MOST
    with pytest.raises(InputError, match="limit of 256"):
        read_ports(",".join(map(str, range(1, MOST + 2))), "inbound")
