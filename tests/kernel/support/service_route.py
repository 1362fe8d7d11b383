# SPDX-License-Identifier: Apache-2.0
"""The route by which a node reaches Services."""

import socket
from pathlib import Path

import pytest

from policyc.runtime.kernel import bpf_syscall
from policyc.runtime.services.route import NAME
from tests.kernel.support.answers import (
    DROP,
    REDIRECT,
)
from tests.kernel.support.node_under_test import (
    LOCAL,
    NODE,
    UPLINK,
    C,
    NodeUnderTest,
    ip,
    run_through,
)
from tests.kernel.support.packets import (
    Host,
    Payload,
    frame,
)
from tests.kernel.support.service_yaml import (
    TARGET,
    VIP,
    service,
    slices,
)

CIDRS = ("10.96.0.0/12", "fd96::/112")

DEVICE_MAC = "02:70:63:00:00:03"

ON_DEVICE = Host(DEVICE_MAC, NODE.ip4, NODE.ip6)

RESERVED = Host(DEVICE_MAC, "169.254.255.1", "fd70:6353:6870::1")


@pytest.fixture(autouse=True)
def routed(node: NodeUnderTest) -> None:
    """The node has its addresses, forwards, and has a route to pod c."""
    for name in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        Path(f"/proc/sys/net/{name}").write_text("1")
    for device in ("lo", UPLINK):
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("0")
    for family, size in ((4, 32), (6, 128)):
        ip("addr", "add", f"{NODE.address(family)}/{size}", "dev", "lo")
        ip(f"-{family}", "route", "add", f"{C.address(family)}/{size}", "dev", UPLINK)


def loaded(
    node: NodeUnderTest, *endpoints: Host, protocol: str = "TCP", port: int = TARGET, **spec: object
) -> None:
    serve = [service(protocol=protocol, **spec), *slices(endpoints, protocol=protocol, port=port)]
    node.load(node.policy(), services=serve, uplinks=[UPLINK], service_cidr=CIDRS)


def ran(node: NodeUnderTest, program: str, sent: bytes, device: str, came_in: int) -> bytes | None:
    with bpf_syscall.obj_get(node.pins.hook(program)) as fd:
        verdict, out = run_through(fd, sent, socket.if_nametoindex(device), came_in)
    assert verdict in (REDIRECT, DROP)
    return out if verdict == REDIRECT else None


def sends(node: NodeUnderTest, sent: bytes, came_in: int = 0) -> bytes | None:
    """The node's frame after the hook. None if it is dropped."""
    return ran(node, "pc_to_route", sent, NAME, came_in)


def gets(node: NodeUnderTest, pod: str, sent: bytes) -> bytes | None:
    """What the node gets of a pod's answer; None if it is dropped."""
    device = LOCAL.get(pod, UPLINK)
    program = "pc_from_pod" if pod in LOCAL else "pc_from_uplink"
    return ran(node, program, sent, device, socket.if_nametoindex(device))


def to(host: Host, payload: Payload, family: int, src: Host = NODE) -> bytes:
    """As it is at the device, whose neighbours are all itself."""
    end = Host(DEVICE_MAC, host.ip4, host.ip6)
    return frame(Host(DEVICE_MAC, src.ip4, src.ip6), end, payload, family=family)


def said(host: Host, payload: Payload, family: int) -> bytes:
    """A pod's answer to the node."""
    return frame(host, NODE, payload, family=family)


def heard(host: Host, payload: Payload, family: int, sender: Host = VIP) -> bytes:
    """The same frame as it enters by the device, with the MAC of its sender."""
    return frame(Host(host.mac, sender.ip4, sender.ip6), ON_DEVICE, payload, family=family)
