# SPDX-License-Identifier: Apache-2.0
"""Which devices in pods' network namespaces are slaves on which policies can be enforced."""

import socket
import struct
from pathlib import Path

import pytest

from policyc.runtime.attach import slaves as links
from policyc.runtime.attach.slaves import FIRST_NUMBER, PREFIX
from policyc.runtime.bundle.address_value import Address
from policyc.runtime.devices.links import INFO, KIND, OF_KIND
from policyc.runtime.endpoints import slaves
from policyc.runtime.endpoints.endpoints import EndpointRecord
from policyc.runtime.endpoints.slaves import Slave
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import namespaces
from policyc.runtime.kernel.netlink import packed
from policyc.runtime.kernel.pins import Pins

HERE = Path("/proc/self/ns/net")
MAC = "02:00:00:00:00:01"
UPLINKS = {"uplink0": 7}
FILE = Path("endpoints.json")


def pod(device: str = "eth0", netns: Path = HERE, mac: str = MAC) -> EndpointRecord:
    addresses: dict[int, Address] = {}
    return EndpointRecord(
        "shop", "web", {}, {}, (), addresses, "default", "n", False,
        f"{netns}:{device}", mac, slave=(netns, device),
    )  # fmt: skip


def device(kind: str = "ipvlan", mode: int = 0, flags: int = 0, parent: int = 7,
           is_here: bool = True) -> slaves._Device:  # fmt: skip
    """What the kernel says of a device."""
    of_kind = packed({1: struct.pack("=H", mode), 2: struct.pack("=H", flags)})
    info = {KIND: kind.encode() + b"\0", OF_KIND: of_kind} if kind else {}
    about = {
        INFO: packed(info),
        1: bytes.fromhex(MAC.replace(":", "")),
        5: struct.pack("=i", parent),
    }
    return slaves._Device(99, 2, about, is_here)


def found(
    monkeypatch: pytest.MonkeyPatch, seen: slaves._Device, record: EndpointRecord | None = None
) -> dict[str, Slave]:
    """What a load finds, where the kernel says this of the pod's device."""
    monkeypatch.setattr(slaves, "_look", lambda *_: seen)
    return slaves.found(FILE, [record or pod()], UPLINKS, "refuse", print)


def test_a_slave_in_mode_l2_of_an_uplink_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"{HERE}:eth0"
    assert found(monkeypatch, device()) == {name: Slave(name, HERE, 99, 2, 7)}


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (
            device("macvlan"),
            "is a macvlan device, on which policies are not enforced: the pod can add",
        ),
        (device("veth"), "is a veth device, .*: the pod's traffic passes the node's side"),
        (device(""), "is a device of its own, .*AF_XDP, pass no hook"),
        (device(mode=1), "has the mode l3 bridge, and policies are enforced only in mode l2"),
        (device(mode=2), "has the mode l3s bridge"),
        (device(flags=1), "has the mode l2 private"),
        (device(flags=2), "has the mode l2 vepa"),
        (device(parent=8), "the parent of the ipvlan device is not an uplink"),
        (device(is_here=False), "the parent of the ipvlan device is not an uplink"),
    ],
)
def test_other_devices_are_refused(
    monkeypatch: pytest.MonkeyPatch, seen: slaves._Device, message: str
) -> None:
    with pytest.raises(InputError, match=f"{FILE}: shop/web: .*:eth0.* {message}") as caught:
        found(monkeypatch, seen)
    assert caught.value.hint


def test_another_mac_than_the_slaves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"has the MAC address {MAC}, but `mac` is 02:.*:09"):
        found(monkeypatch, device(), pod(mac="02:00:00:00:00:09"))


@pytest.mark.parametrize("record", [pod("nothing0"), pod(netns=Path("/run/netns/nothing"))])
def test_a_missing_device_is_refused_or_left_out(record: EndpointRecord) -> None:
    with pytest.raises(InputError, match="shop/web: there is no device") as caught:
        slaves.found(FILE, [record], UPLINKS, "refuse", print)
    assert "--missing-devices skip" in caught.value.hint
    heard: list[str] = []
    assert slaves.found(FILE, [record], UPLINKS, "skip", heard.append) == {}
    assert len(heard) == 1 and "is missing" in heard[0]


def test_loopback_is_no_slave() -> None:
    """Asks the kernel."""
    with pytest.raises(InputError, match=":lo is a device of its own"):
        slaves.found(FILE, [pod("lo")], UPLINKS, "refuse", print)


def test_work_in_a_namespace_that_was_made_again_fails() -> None:
    slave = Slave("a:eth0", HERE, namespaces.cookie(), 1, 7)
    assert slave.run_in(lambda: socket.if_indextoname(1)) == "lo"
    with pytest.raises(FileNotFoundError, match="another network namespace now"):
        Slave("a:eth0", HERE, namespaces.cookie() + 1, 1, 7).run_in(lambda: 1)


def test_a_slave_keeps_its_number(tmp_path: Path) -> None:
    """The pins' names hold the numbers: of cookie and ifindex, as other namespaces have them, too."""
    pins = Pins(tmp_path)
    first, other = Slave("a:eth0", HERE, 5, 2, 7), Slave("b:eth0", HERE, 6, 2, 7)
    assert links.numbered(pins, [first, other]) == {
        "a:eth0": PREFIX | FIRST_NUMBER, "b:eth0": PREFIX | FIRST_NUMBER + 16,
    }  # fmt: skip
    pins.slaves.mkdir()
    (pins.slaves / f"slave-6-2-{FIRST_NUMBER}-out").touch()
    (pins.slaves / f"slave-4-2-{FIRST_NUMBER + 16}-in").touch()
    assert links.numbered(pins, [first, other]) == {
        "a:eth0": PREFIX | FIRST_NUMBER + 32, "b:eth0": PREFIX | FIRST_NUMBER,
    }  # fmt: skip


def test_without_a_free_number_a_load_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "_NUMBERS", FIRST_NUMBER + 1)
    both = [Slave("a:eth0", HERE, 5, 2, 7), Slave("b:eth0", HERE, 6, 2, 7)]
    with pytest.raises(HostError, match="no number is free for the ipvlan device b:eth0"):
        links.numbered(Pins(tmp_path), both)


def test_the_numbers_are_those_of_the_datapath() -> None:
    folder = Path(links.__file__).parents[1] / "datapath"
    assert "#define PC_SLAVE 0x80000000" in (folder / "flow.h").read_text() and PREFIX == 1 << 31
    assert f"PC_STAMP_SLAVE = {FIRST_NUMBER:#x}," in (folder / "stamp.h").read_text()
    assert "__u16 stamp;" in (folder / "flow.h").read_text() and links._NUMBERS == 1 << 16
