# SPDX-License-Identifier: Apache-2.0
"""Answers to rejected packets come from the Service that the pod sent to, and quote the pod's
packet.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.lab.topology import Lab
from policyc.runtime.load.node import load
from policyc.runtime.load.request import LoadRequest
from tests.kernel.support import packets
from tests.kernel.support.answers import (
    DROP,
    REDIRECT,
    answer_of,
)
from tests.kernel.support.bundles import compiled
from tests.kernel.support.packets import (
    ACK,
    RST,
    SYN,
    Host,
    Payload,
)
from tests.kernel.support.rejecting import (
    FAMILIES,
    OUTSIDE,
    PODS,
    POLICY,
    Rejecting,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    PORT,
    VIP,
    service,
    slices,
)

pytestmark = pytest.mark.kernel

CART = Host(VIP.mac, str(PODS["cart"].ipv4), str(PODS["cart"].ipv6))


def services() -> list[JsonValue]:
    """One on a port that web may not reach anywhere, for TCP and for UDP; and one outside."""
    found = []
    for name, protocol, vip, host in (
        ("web", "TCP", VIP, CART),
        ("names", "UDP", VIP, CART),
        ("far", "TCP", OTHER_VIP, OUTSIDE),
    ):
        found.append(service(name=name, protocol=protocol, vip=vip))
        found += slices([host], name=name, protocol=protocol, port=25)
    return found


@pytest.fixture(scope="module", params=["c", "llvm"])
def rejecting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rejecting]:
    folder: Path = tmp_path_factory.mktemp("service-reject")
    bundle, endpoints = (
        compiled(folder, POLICY, "--backend", request.param),
        folder / "endpoints.json",
    )
    with Lab(tuple(PODS.values())) as lab:
        records = {pod.key: {"labels": {"app": pod.name}} for pod in PODS.values()}
        lab.node.write_endpoints(endpoints, records)
        lab.node.run_in(
            lambda: (
                load(
                    LoadRequest(
                        bundle=bundle,
                        endpoints=endpoints,
                        bpffs=lab.node.bpffs,
                        state_root=folder / "state",
                        services=services(),
                    )
                )
                and None
            )
        )
        yield Rejecting(lab)


def sent(rejecting: Rejecting, vip: Host, payload: Payload, family: int) -> bytes:
    web = rejecting.host("web")
    return packets.frame(web, vip, payload, family=family)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("vip", [VIP, OTHER_VIP], ids=["to a pod", "to outside"])
def test_a_reset_comes_from_the_service(rejecting: Rejecting, vip: Host, family: int) -> None:
    for sport in (40000, 40001):
        frame = sent(rejecting, vip, packets.tcp(sport, PORT, SYN), family)
        (outcome,) = rejecting.pass_by("pc_from_pod", "web", [frame])
        assert outcome.verdict == REDIRECT
        answer = answer_of(outcome.frame)
        assert answer.macs == (frame[6:12], frame[:6])
        web = rejecting.host("web").address(family)
        assert answer.addresses == (packets.packed(vip.address(family)), packets.packed(web))
        assert struct.unpack_from("!HHIIBB", answer.body) == (PORT, sport, 0, 2, 0x50, RST | ACK)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [0, 9, 700])
def test_an_error_quotes_the_pods_packet(rejecting: Rejecting, family: int, size: int) -> None:
    frame = sent(rejecting, VIP, packets.udp(4000, PORT, b"q" * size), family)
    (outcome,) = rejecting.pass_by("pc_from_pod", "web", [frame])
    assert outcome.verdict == REDIRECT
    answer = answer_of(outcome.frame)
    assert answer.addresses[0] == packets.packed(VIP.address(family))
    room = 548 if family == 4 else 1232
    assert answer.body[8:] == frame[14 : 14 + room]


@pytest.mark.both_families
@pytest.mark.parametrize("family", FAMILIES)
def test_a_reset_to_a_service_is_not_answered(rejecting: Rejecting, family: int) -> None:
    frame = sent(rejecting, VIP, packets.tcp(41000, PORT, RST | ACK), family)
    (outcome,) = rejecting.pass_by("pc_from_pod", "web", [frame])
    assert outcome.verdict == DROP
