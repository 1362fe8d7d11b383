# SPDX-License-Identifier: Apache-2.0
"""What an uplink is part of, from the kernel's own messages: VRFs are not in every kernel."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from policyc.runtime.devices import uplinks
from policyc.runtime.errors import HostError, InputError
from policyc.runtime.kernel import rtnetlink

LINKS = {"eth0": "", "bond0": "bond", "br0": "bridge", "red": "vrf"}
NUMBERS = {name: at for at, name in enumerate(LINKS, 2)}


def link(name: str, master: str) -> ifinfmsg:
    """A link as the kernel reports it to `ip link show`."""
    attributes: list[tuple[str, object]] = [("IFLA_IFNAME", name)]
    if master:
        attributes.append(("IFLA_MASTER", NUMBERS[master]))
    if LINKS[name]:
        attributes.append(("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", LINKS[name])]}))
    made = ifinfmsg()
    made["index"], made["attrs"] = NUMBERS[name], attributes
    made.encode()
    told = ifinfmsg(made.data)
    told.decode()
    return told


def found(monkeypatch: pytest.MonkeyPatch, *chain: str) -> dict[str, int]:
    """The first device is the uplink, and each is part of the next."""
    masters = dict(zip(chain, (*chain[1:], ""), strict=True))

    class Netlink:
        def link(self, command: str, index: int) -> list[ifinfmsg]:
            assert command == "get"
            (name,) = (each for each, at in NUMBERS.items() if at == index)
            return [link(name, masters[name])]

    @contextmanager
    def connection(purpose: str, otherwise: str = "") -> Iterator[Netlink]:
        yield Netlink()

    monkeypatch.setattr(rtnetlink, "connection", connection)
    monkeypatch.setattr(uplinks.socket, "if_nametoindex", NUMBERS.__getitem__)
    monkeypatch.setattr(uplinks, "_kind", lambda name: 1)
    return uplinks.find(chain[:1], {})


CHAINS = [("eth0",), ("eth0", "br0"), ("eth0", "bond0", "br0")]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_device_outside_vrfs_can_be_an_uplink(
    monkeypatch: pytest.MonkeyPatch, chain: tuple[str, ...]
) -> None:
    assert found(monkeypatch, *chain) == {"eth0": 2}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_device_in_a_vrf_is_refused(
    monkeypatch: pytest.MonkeyPatch, chain: tuple[str, ...]
) -> None:
    """Also below a bond or bridge that is."""
    with pytest.raises(
        InputError, match="--uplink eth0: the device belongs to the VRF red"
    ) as error:
        found(monkeypatch, *chain, "red")
    assert error.value.exit_code == 2 and "outside of every VRF" in error.value.hint


def test_the_vrf_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="VRF red"):
        found(monkeypatch, "red")


def test_an_rtnetlink_failure_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connection(purpose: str, otherwise: str = "") -> Iterator[None]:
        raise OSError(12, "Cannot allocate memory")
        yield

    monkeypatch.setattr(rtnetlink, "connection", connection)
    with pytest.raises(HostError, match="--uplink lo: rtnetlink cannot read"):
        uplinks._vrf_of("lo", 1)
