# SPDX-License-Identifier: Apache-2.0
"""Devices that a load refuses, and missing ones. `make guest-ipvlan` runs this file: it needs ipvlan."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.runtime.errors import InputError
from tests.kernel.ipvlan.bed import Slaves
from tests.kernel.ipvlan.test_slave_loads import ids
from tests.kernel.support.loaded_lab import SILENCE

pytestmark = pytest.mark.kernel
Change = Callable[[dict[str, object]], None]


def _with(**values: object) -> Change:
    def change(record: dict[str, object]) -> None:
        if record["name"] == "cart":
            record.update(values)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_with(interface="nothing0"), "there is no device .*:nothing0"),
        (_with(netns="/run/netns/nothing"), "there is no device /run/netns/nothing:eth0"),
        (_with(mac="02:00:00:00:00:77"), "has the MAC address 02:00:00:02:00:01"),
        (_with(interface="lo"), "a device of its own"),
    ],
)
def test_a_wrong_record_is_refused(lab: Slaves, opened: Path, change: Change, message: str) -> None:
    lab.write_endpoints(change)
    try:
        with pytest.raises(InputError, match=message):
            lab.load(opened)
        assert ids(lab) == {}
    finally:
        lab.write_endpoints()


def test_a_missing_slave_is_left_out_where_the_load_says_so(lab: Slaves, opened: Path) -> None:
    lab.write_endpoints(_with(netns="/run/netns/nothing"))
    try:
        lab.load(opened, missing="skip")
        assert any("is missing" in each for each in lab.notes)
        assert not lab.asks("external", "cart", 4, patience=SILENCE), "its slave has no hook"
    finally:
        lab.write_endpoints()
        lab.unload()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ipvlan mode l3", "mode l3 bridge"),
        ("ipvlan mode l2 private", "mode l2 private"),
        ("macvlan mode bridge", "macvlan device, on which policies are not enforced"),
        ("dummy", "dummy device, on which policies are not enforced: .*AF_XDP"),
    ],
)
def test_another_kind_of_device_is_refused(
    lab: Slaves, opened: Path, kind: str, message: str
) -> None:
    """On another parent, as all slaves of a parent have one mode."""
    pod = lab.lab.ends["shop/cart"].namespace.name
    above = "" if kind == "dummy" else "link parent1"
    lab.write_endpoints(_with(interface="other0"))
    try:
        lab.on_node(lambda: _ip("link add parent1 type dummy"))
        lab.on_node(lambda: _ip(f"link add {above} name other0 netns {pod} type {kind}"))
        with pytest.raises(InputError, match=message):
            lab.load(opened)
    finally:
        lab.write_endpoints()
        lab.within("cart", lambda: _ip("link del other0"))
        lab.on_node(lambda: _ip("link del parent1"))


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)
