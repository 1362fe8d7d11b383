# SPDX-License-Identifier: Apache-2.0
"""The search for the devices behind pods' veths: without such devices, and without an answer."""

import errno
import socket
import struct
from pathlib import Path

import pytest

from policyc.runtime.bundle.address_value import Address
from policyc.runtime.devices import links
from policyc.runtime.endpoints import pod_devices
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.endpoints.pod_devices import (
    NO_MAC,
    is_pair_to_elsewhere,
    netkit_devices,
    require_hooks,
    require_macs,
    require_passed,
    require_scrubbed,
)
from policyc.runtime.errors import HostError, InputError


def pod(interface: str, mac: str = "02:00:00:00:00:01") -> EndpointRecord:
    addresses: dict[int, Address] = {}
    return EndpointRecord(
        "shop", "web", {}, {}, (), addresses, "default", "n", False, interface, mac
    )


@pytest.mark.parametrize("ifindex", [1, 1 << 30], ids=["no veth", "gone"])
def test_a_device_without_a_peer_has_no_device_behind_it(ifindex: int) -> None:
    notes: list[str] = []
    require_hooks(Path("endpoints.json"), [pod("veth0")], {"veth0": ifindex}, notes.append)
    require_passed(["lo", "nowhere0"], {"veth0": ifindex})
    assert notes == []


def test_a_kernel_error_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(105, "No buffer space available")

    monkeypatch.setattr(socket.socket, "send", refuse)
    with pytest.raises(HostError, match="the pods' devices: No buffer space"):
        require_passed(["lo"], {"veth0": 1})


def test_a_list_that_ends_with_an_error_is_not_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pod_devices._netlink() as netlink, pytest.raises(OSError) as caught:
        list(pod_devices._in_namespace(netlink, struct.pack("=i", 1 << 30), b""))
    assert caught.value.errno in links.GONE, "a namespace that is not there"

    def others(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    about = {pod_devices._PEER_SPACE: b"", pod_devices._PEER: b""}
    monkeypatch.setattr(links, "about", lambda *_: about)
    monkeypatch.setattr(links, "asked", others)
    with pytest.raises(HostError, match="Permission denied"):
        require_hooks(Path("endpoints.json"), [pod("veth0")], {"veth0": 1}, print)


NEW_LINK = 16  # RTM_NEWLINK


def attribute(number: int, data: bytes) -> bytes:
    """One attribute, padded as the kernel pads it."""
    head = struct.pack("=HH", 4 + len(data), number)
    return head + data + bytes(-len(data) % 4)


def link(kind: bytes, *of_kind: bytes, peer_space: int | None = None) -> bytes:
    """The kernel's answer about a device (rtnl_fill_ifinfo(), netkit_fill_info())."""
    info = attribute(1, kind + b"\0") + attribute(2, b"".join(of_kind))
    body = struct.pack("=BxHiII", 0, 1, 9, 0, 0) + attribute(3, b"nk0\0") + attribute(18, info)
    body += b"" if peer_space is None else attribute(37, struct.pack("=i", peer_space))
    return struct.pack("=IHHII", 16 + len(body), NEW_LINK, 0, 0, 0) + body


def netkit(
    scrub: int | None, peer_scrub: int | None, mode: int = 1, is_primary: bool = True
) -> bytes:
    """In the kernel's order. Before 6.12 there is no scrub mode; a single end reports no peer's mode."""
    word = struct.Struct("=I").pack
    own = [attribute(2, bytes([is_primary])), attribute(3, word(0)), attribute(5, word(mode))]
    own += [] if scrub is None else [attribute(6, word(scrub))]
    own += [attribute(8, struct.pack("=H", 0)), attribute(9, struct.pack("=H", 0))]
    own += [attribute(4, word(0))]
    own += [] if peer_scrub is None else [attribute(7, word(peer_scrub))]
    return link(b"netkit", *own)


def answers(monkeypatch: pytest.MonkeyPatch, message: bytes) -> None:
    """The kernel says this about every device."""
    monkeypatch.setattr(socket.socket, "send", lambda *_: None)
    monkeypatch.setattr(socket.socket, "recv", lambda *_: message)


@pytest.mark.parametrize("scrub", [0, 1])
def test_a_netkit_device_whose_peer_keeps_marks_is_refused(
    monkeypatch: pytest.MonkeyPatch, scrub: int
) -> None:
    answers(monkeypatch, netkit(scrub, 0))
    with pytest.raises(InputError, match=r"nk0: .* does not scrub .*peer scrub none") as caught:
        require_scrubbed({"nk0": 9})
    assert caught.value.hint == "create the device with `peer scrub default`"
    with pytest.raises(InputError, match=r"lo: .* does not scrub"):
        require_scrubbed({}, ["lo"])


@pytest.mark.parametrize(
    "message",
    [
        netkit(1, 1),
        netkit(0, 1),  # what the node sends to the pod keeps its mark, and no other
        netkit(None, None),
        netkit(1, None),
        link(b"veth"),
        link(b"vxlan", attribute(7, struct.pack("=I", 0))),
    ],
    ids=["scrubs", "scrubs what the pod sends", "before 6.12", "no peer", "veth", "no netkit"],
)
def test_a_device_that_clears_marks_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, message: bytes
) -> None:
    answers(monkeypatch, message)
    require_scrubbed({"nk0": 9})


def test_a_device_that_is_gone_is_not_refused() -> None:
    require_scrubbed({"gone0": 1 << 30}, ["nowhere0"])


L2, L3 = 0, 1


def test_a_pod_behind_netkit_in_mode_l3_has_no_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, netkit(1, 1, L3))
    require_macs(Path("endpoints.json"), [pod("nk0", NO_MAC)], {"nk0": 9})


@pytest.mark.parametrize("message", [netkit(1, 1, L2), link(b"veth")], ids=["L2", "veth"])
def test_another_pod_without_a_mac_is_refused(
    monkeypatch: pytest.MonkeyPatch, message: bytes
) -> None:
    answers(monkeypatch, message)
    with pytest.raises(InputError, match=r"endpoints.json: .*web: nk0 is not netkit in mode L3"):
        require_macs(Path("endpoints.json"), [pod("nk0", NO_MAC)], {"nk0": 9})


def test_pods_with_a_mac_or_without_a_device_need_no_kind() -> None:
    require_macs(Path("endpoints.json"), [pod("veth0"), pod("gone", NO_MAC)], {"veth0": 1 << 30})


@pytest.mark.parametrize(
    ("message", "is_netkit"),
    [(netkit(1, 1), True), (netkit(1, 1, is_primary=False), False), (link(b"veth"), False)],
    ids=["primary", "peer", "veth"],
)
def test_only_primary_netkit_devices_can_get_programs(
    monkeypatch: pytest.MonkeyPatch, message: bytes, is_netkit: bool
) -> None:
    answers(monkeypatch, message)
    assert netkit_devices({"nk0": 9}) == ({"nk0": 9} if is_netkit else {})


@pytest.mark.parametrize("kind", [b"veth", b"netkit"])
@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_packets_are_redirected_to_peers_in_other_namespaces(
    monkeypatch: pytest.MonkeyPatch, kind: bytes, is_elsewhere: bool
) -> None:
    answers(monkeypatch, link(kind, peer_space=7 if is_elsewhere else None))
    assert is_pair_to_elsewhere([9]) == {9: is_elsewhere}


def test_packets_are_redirected_to_no_other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, link(b"ipvlan", peer_space=7))
    assert is_pair_to_elsewhere([9]) == {9: False}
