# SPDX-License-Identifier: Apache-2.0
"""Asking for the devices behind pods' veths, where there are none, and where nobody answers."""

import errno
import socket
import struct
from pathlib import Path

import pytest

from policyc.runtime import pod_devices
from policyc.runtime.address_value import Address
from policyc.runtime.endpoints import EndpointRecord
from policyc.runtime.errors import HostError
from policyc.runtime.pod_devices import require_hooks, require_passed


def pod(interface: str) -> EndpointRecord:
    addresses: dict[int, Address] = {}
    return EndpointRecord(
        "shop", "web", {}, {}, (), addresses, "default", "n", False, interface, "02:00:00:00:00:01"
    )


@pytest.mark.parametrize("ifindex", [1, 1 << 30], ids=["no veth", "gone"])
def test_what_has_no_other_side_has_nothing_behind_it(ifindex: int) -> None:
    notes: list[str] = []
    require_hooks(Path("endpoints.json"), [pod("veth0")], {"veth0": ifindex}, notes.append)
    require_passed(["lo", "nowhere0"], {"veth0": ifindex})
    assert notes == []


def test_what_the_kernel_refuses_is_an_error_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(105, "No buffer space available")

    monkeypatch.setattr(socket.socket, "send", refuse)
    with pytest.raises(HostError, match="what devices the pods have: No buffer space"):
        require_passed(["lo"], {"veth0": 1})


def test_a_list_that_ends_with_an_error_is_not_an_empty_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pod_devices._netlink() as netlink, pytest.raises(OSError) as caught:
        list(pod_devices._in_namespace(netlink, struct.pack("=i", 1 << 30), b""))
    assert caught.value.errno in pod_devices._GONE, "a namespace that is not there"

    def others(*_: object) -> None:
        raise OSError(errno.EACCES, "Permission denied")

    about = {pod_devices._PEER_SPACE: b"", pod_devices._PEER: b""}
    monkeypatch.setattr(pod_devices, "_about", lambda *_: about)
    monkeypatch.setattr(pod_devices, "_asked", others)
    with pytest.raises(HostError, match="Permission denied"):
        require_hooks(Path("endpoints.json"), [pod("veth0")], {"veth0": 1}, print)
