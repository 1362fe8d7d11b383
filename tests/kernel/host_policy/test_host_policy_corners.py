# SPDX-License-Identifier: Apache-2.0
"""Frames that could bypass host policy by their form alone: VLAN tags and fragments."""

import os
from pathlib import Path

import pytest

from policyc.runtime.snat.snat import Masquerade
from tests.kernel.support.arrival import arrived, is_silent
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    POLICY,
    UDP,
    services,
)
from tests.kernel.support.fragment_client import (
    SPORT,
    Client,
)
from tests.kernel.support.fragments import (
    cut,
    send,
    udp_segment,
)
from tests.kernel.support.host_policy_wire import (
    CLOSED,
    OPEN,
    drops,
    families,
    host_policy,
)
from tests.kernel.support.packets import (
    ETH_VLAN,
    Host,
    ethernet,
    frame,
    udp,
)
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
    address,
)
from tests.kernel.support.wire import link_address

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("guarded"), host_policy())


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle without host policy."""
    return compiled(tmp_path_factory.mktemp("opened"), POLICY)


def neighbours(lab: TwoNodes, client: str) -> tuple[Host, Host]:
    """A client, as the router sends for it, and node a."""
    source = lab.at["router"].within(lambda: link_address("to-a"))
    target = lab.at["a"].within(lambda: link_address(UPLINK))
    return (
        Host(source, address(client, 4), address(client, 6)),
        Host(target, address("a", 4), address("a", 6)),
    )


@pytest.mark.both_families
@families
def test_a_frame_with_vlan_0_does_not_bypass_host_policy(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The kernel takes off the tag. Policy decides as without it."""
    lab.load("a", bundle, None)
    closed, opened = (lab.server("a", family, UDP, port) for port in (CLOSED, OPEN))
    src, dst = neighbours(lab, "client1")
    for tags in (b"\0\0", b"\xe0\0"):
        for port in (CLOSED, OPEN):
            plain = frame(src, dst, udp(SPORT, port), family=family)
            tagged = ethernet(src.mac, dst.mac, ETH_VLAN, tags + plain[12:])
            lab.at["router"].within(lambda sent=tagged: send("to-a", [sent]))
        assert is_silent(closed)
        assert arrived(opened)
    assert drops(lab) == {"policy": 2}


@families
def test_a_flood_of_fragments_does_not_bypass_host_policy(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """A later fragment before its first, and more fragments than the limit for reassembly."""
    lab.load("a", bundle, services("pod-a"), reassemble=True)
    server = lab.server("a", family, UDP, CLOSED)
    src, dst = neighbours(lab, "client2")
    segment = udp_segment(src, dst, SPORT, CLOSED, os.urandom(3000), family)
    pieces = cut(src, dst, segment, (1200, 1200), family, ident=7)
    flood = [cut(src, dst, segment[:72], (8,), family, ident=9)[1]] * 12_000
    lab.at["router"].within(lambda: send("to-a", [pieces[1], *flood, *pieces]))
    assert is_silent(server)
    found = lab.status("a").reassembly
    assert found and found["over"] > 0


@families
def test_a_node_without_host_policy_does_not_limit_fragments(
    lab: TwoNodes, opened: Path, family: int
) -> None:
    lab.load("a", opened, services("pod-a"), reassemble=True)
    server = lab.server("a", family, UDP, CLOSED)
    src, dst = neighbours(lab, "client2")
    data = os.urandom(3000)
    segment = udp_segment(src, dst, SPORT, CLOSED, data, family)
    pieces = cut(src, dst, segment, (1200, 1200), family, ident=7)
    flood = [cut(src, dst, segment[:72], (8,), family, ident=9)[1]] * 12_000
    lab.at["router"].within(lambda: send("to-a", [pieces[1], *flood, *pieces]))
    assert arrived(server, 65536) == data


@pytest.mark.both_families
@families
@pytest.mark.parametrize("served", [False, True], ids=["without Services", "with Services"])
def test_fragments_to_an_allowed_port_of_the_node_arrive_in_any_order(
    lab: TwoNodes, bundle: Path, family: int, served: bool
) -> None:
    lab.load("a", bundle, services("pod-a") if served else None, reassemble=True)
    opened, closed = (lab.server("a", family, UDP, port) for port in (OPEN, CLOSED))
    client = Client(lab, "client1", "a")
    for order in ((0, 1, 2), (0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
        data = os.urandom(3000)
        client.send(order, data, OPEN, family)
        assert arrived(opened, 65536) == data, order
        client.send(order, data, CLOSED, family)
    assert is_silent(closed)


@pytest.mark.both_families
@families
@pytest.mark.parametrize("served", [False, True], ids=["without Services", "with Services"])
def test_fragments_of_replies_to_pods_behind_snat_arrive_in_any_order(
    lab: TwoNodes, opened: Path, family: int, served: bool
) -> None:
    """Fragments made by hand. Fragments to the node itself arrive as well."""
    lab.load(
        "a", opened, services("pod-b") if served else None,
        masquerade=Masquerade(range(50000, 51000)), reassemble=True,
    )  # fmt: skip
    server, own = lab.server("client1", family, UDP, OPEN), lab.server("a", family, UDP, 9000)
    client = lab.open_socket("pod-a", family, UDP)
    client.bind((address("pod-a", family), 50007))
    client.connect((address("client1", family), OPEN))
    client.send(b"question")
    _, asked = server.recvfrom(100)
    outside = Client(lab, "client1", "a")
    for ident, order in enumerate(((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)), 100):
        for port, to in ((asked[1], client), (9000, own)):
            data = os.urandom(3000)
            segment = udp_segment(outside.me, outside.to, OPEN, port, data, family)
            pieces = cut(
                outside.me,
                outside.to,
                segment,
                (1200, 1200),
                family,
                ident=ident + 1000 * (to is own),
            )
            ordered = [pieces[at] for at in order]
            lab.at["client1"].within(lambda sent=ordered: send(UPLINK, sent))
            assert arrived(to, 65536) == data, (order, port)
    assert lab.bad_checksums() == 0


@pytest.mark.both_families
@families
def test_fragments_to_pods_of_a_node_under_host_policy_arrive_in_any_order(
    lab: TwoNodes, bundle: Path, family: int
) -> None:
    """The uplink passes later fragments, and the pod's hook sends them to reassembly."""
    lab.load("a", bundle, None, reassemble=True)
    server = lab.server("pod-a", family, UDP, 9000)
    client = Client(lab, "client2", "pod-a")
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (0, 2, 1)):
        data = os.urandom(3000)
        client.send(order, data, 9000, family)
        assert arrived(server, 65536) == data, order
