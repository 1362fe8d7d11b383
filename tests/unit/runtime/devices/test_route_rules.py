# SPDX-License-Identifier: Apache-2.0
"""The selectors of routing rules in the kernel's messages, with attributes newer than pyroute2."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyroute2.netlink.rtnl.fibmsg import fibmsg

from policyc.runtime.devices import route_rules
from policyc.runtime.kernel import rtnetlink

UPLINKS = [2, 3]
MARK, MASK, PRIORITY, IP_PROTO, DPORT = 10, 16, 6, 22, 24
TUNNEL, DSCP, FLOW_LABEL, DPORT_MASK = 12, 25, 26, 29


def rule(tos: int) -> bytes:
    return struct.pack("=BBBBBBBBI", 2, 0, 0, tos, 254, 0, 0, 1, 0)


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def told(
    monkeypatch: pytest.MonkeyPatch, *attributes: bytes, tos: int = 0
) -> tuple[list[int], int]:
    body = rule(tos) + number(PRIORITY, 100) + b"".join(attributes)
    message = fibmsg(struct.pack("=IHHII", 16 + len(body), 32, 0, 1, 0) + body)
    message.decode()

    class Netlink:
        def get_rules(self, family: int) -> list[fibmsg]:
            return [message] if family == 2 else []

    @contextmanager
    def connection(*_: str) -> Iterator[Netlink]:
        yield Netlink()

    monkeypatch.setattr(rtnetlink, "connection", connection)
    notes: list[str] = []
    found = route_rules.told_of(UPLINKS, notes.append)
    assert bool(notes) == (not found[0])
    return found


def test_rules_on_known_selectors_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    port = attribute(DPORT, struct.pack("=HH", 80, 80)), attribute(DPORT_MASK, b"\xff\xff")
    assert told(monkeypatch, attribute(IP_PROTO, b"\x06"), *port) == (UPLINKS, 0)


def test_marks_are_those_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, number(MARK, 0x80), number(MASK, 0xF0)) == (UPLINKS, 0xF0)
    assert told(monkeypatch, number(MARK, 0x80)) == (UPLINKS, 0xFFFFFFFF)


@pytest.mark.parametrize(
    "asked",
    [
        attribute(DSCP, b"\x0a"),
        number(FLOW_LABEL, 7),
        attribute(TUNNEL, bytes(7) + b"\x01"),
        attribute(99, b"?"),
    ],
    ids=["DSCP", "flow label", "tunnel", "what comes yet"],
)
def test_rules_on_other_selectors_keep_the_stack_path(
    monkeypatch: pytest.MonkeyPatch, asked: bytes
) -> None:
    assert told(monkeypatch, asked) == ([], 0)


def test_a_rule_by_type_of_service_keeps_the_stack_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, tos=0x10) == ([], 0)


@pytest.mark.parametrize("name", ["FRA_DSCP", "FRA_FLOWLABEL", "FRA_TUN_ID"])
def test_a_rule_on_a_named_selector_asks_more(name: str) -> None:
    usual = [("FRA_TABLE", 254), ("FRA_SUPPRESS_PREFIXLEN", 0xFFFFFFFF), ("FRA_PROTOCOL", 2)]
    assert not route_rules._asks_more({"tos": 0, "attrs": usual})
    assert route_rules._asks_more({"tos": 0, "attrs": [*usual, (name, 8)]})
