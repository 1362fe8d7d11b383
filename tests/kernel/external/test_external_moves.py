# SPDX-License-Identifier: Apache-2.0
"""External clients when the return path or the endpoint changes during a connection."""

import socket
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kernel.support.external_wire import (
    NODE_PORT,
    PORT,
    PORT_OF_TUNNEL,
    TARGET,
    TCP,
    accepted,
    bundle,
    exchange,
    families,
    frames_of,
    loaded,
    services,
)
from tests.kernel.support.node_under_test import ip
from tests.kernel.support.packets import (
    Host,
    frame,
    inner,
    tcp,
    unreachable,
)
from tests.kernel.support.two_nodes import (
    EXTERNAL,
    UPLINK,
    TwoNodes,
    address,
)

__all__ = ["bundle"]
pytestmark = pytest.mark.kernel


def is_unreachable(frame: bytes, family: int) -> bool:
    """Port unreachable, and not what neighbour discovery sends in the same protocol."""
    ether, at, said = (b"\x08\x00", 23, (1, 3, 3)) if family == 4 else (b"\x86\xdd", 20, (58, 1, 4))
    head = 34 if family == 4 else 54
    return frame[12:14] == ether and (frame[at], frame[head], frame[head + 1]) == said


@pytest.mark.both_families
@families
def test_an_error_about_a_reply_sent_by_dsr_reaches_the_local_endpoint(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """With dsr, the error arrives at any node that the Service's address is routed to: here the
    endpoint's.
    """
    loaded(lab, bundle, "pod-b", return_path="dsr")
    lab.check_no_paths("router")
    listening = lab.server("pod-b", family, TCP, TARGET)
    client = lab.connect("client1", family, EXTERNAL[family], PORT)
    assert client
    server, _ = accepted(listening)
    with server:
        exchange(client, server, 1000)
        lab.route(EXTERNAL[family], 32 if family == 4 else 128, "b", family)
        seen, wire = lab.capture("pod-b", "eth0"), lab.capture("b", UPLINK)
        here = Host("", address("client1", 4), address("client1", 6))
        service = Host("", EXTERNAL[4], EXTERNAL[6])
        mac = "02:00:00:00:00:01"
        quoted = inner(frame(Host(mac, service.ip4, service.ip6), Host(mac, here.ip4, here.ip6),
                             tcp(PORT, client.getsockname()[1]), family=family))  # fmt: skip
        error = inner(frame(Host(mac, here.ip4, here.ip6), Host(mac, service.ip4, service.ip6),
                            unreachable(family, quoted), family=family))  # fmt: skip
        kind = socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6
        af = socket.AF_INET if family == 4 else socket.AF_INET6
        raw = lab.at["client1"].within(lambda: socket.socket(af, socket.SOCK_RAW, kind))
        with raw:
            raw.sendto(error[20 if family == 4 else 40 :], (EXTERNAL[family], 0))
        errors = eventually(
            lambda: [each for each in frames_of(seen) if is_unreachable(each, family)],
            "the error at the pod's device",
        )
        assert len(errors) == 1
        assert not [each for each in frames_of(wire) if PORT_OF_TUNNEL in each[34:60]]
    assert lab.drops() == {}


def entries(lab: TwoNodes, family: int) -> int | None:
    """How many connections of the family node a has that have no answer yet."""
    return {each.name: each.used for each in lab.status("a").maps}[f"pc_ct{family}_new"]


@pytest.mark.waits
@families
def test_a_client_without_a_reply_is_moved_to_another_endpoint(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The endpoint on another node dies and is removed while the client repeats its SYN."""
    loaded(lab, bundle, "pod-b")
    lab.at["pod-b"].within(lambda: ip("link", "set", "eth0", "down"))
    listening = lab.server("pod-a", family, TCP, TARGET)
    client = lab.open_socket("client1", family, TCP)
    client.setblocking(False)
    client.connect_ex((address("a", family), NODE_PORT))
    eventually(lambda: entries(lab, family), "the SYN's entry on the node it came to")
    for node in ("a", "b"):
        lab.serve(node, services("pod-a"))
    server, seen = accepted(listening)
    with server:
        assert seen == address("client1", family)
