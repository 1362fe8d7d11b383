# SPDX-License-Identifier: Apache-2.0
"""A device of policyc that is up without its hook passes packets without a decision.

At each step of each command the test asks the kernel for devices that are up and for the programs
attached to them.
"""

import json
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from policyc.runtime.attach import attach
from policyc.runtime.devices import (
    reassembly,
    tunnel,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import (
    bpf_syscall,
    rtnetlink,
)
from policyc.runtime.services import route as service_route
from tests.kernel.support.bundles import compiled
from tests.kernel.support.external_wire import (
    POLICY,
    services,
)
from tests.kernel.support.killed import (
    die,
    killed,
)
from tests.kernel.support.two_nodes import (
    UPLINK,
    TwoNodes,
)

pytestmark = [pytest.mark.kernel, pytest.mark.fresh]
OWN = (tunnel.NAME, reassembly.NAME, service_route.NAME)
_PROG_QUERY, _QUERY = 16, struct.Struct("=IIIIQIIQQQ")
CIDRS = ("10.96.0.0/12", "fd96::/112")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("own-devices"), POLICY)


def load(lab: TwoNodes, bundle: Path, with_devices: bool) -> None:
    lab.uplinks = (UPLINK,) if with_devices else ()
    lab.load(
        "a",
        bundle,
        services("pod-b"),
        reassemble=with_devices,
        service_cidr=CIDRS if with_devices else (),
    )


def up() -> set[str]:
    """Of the own devices, in this network namespace."""
    shown = json.loads(_said("ip", "-j", "link", "show"))
    return {each["ifname"] for each in shown if "UP" in each["flags"] and each["ifname"] in OWN}


def there() -> set[str]:
    """The own devices, whether they are up or not."""
    return {name for _, name in socket.if_nameindex() if name in OWN}


def hooked() -> set[str]:
    """Of the own devices: those at which a program runs (BPF_PROG_QUERY, tcx)."""
    return {name for at, name in socket.if_nameindex() if name in OWN and _n_programs(at)}


def _n_programs(ifindex: int) -> int:
    found = 0
    for side in (bpf_syscall.ATTACH_TCX_INGRESS, bpf_syscall.ATTACH_TCX_EGRESS):
        attr = bytearray(_QUERY.pack(ifindex, side, 0, 0, 0, 0, 0, 0, 0, 0))
        try:
            bpf_syscall.bpf(_PROG_QUERY, attr)
        except FileNotFoundError:  # nothing was ever there
            continue
        found += _QUERY.unpack(attr)[5]
    return found


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Watch:
    """Looks after every step by which a hook comes or goes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.n_looks = 0
        self.open: list[str] = []
        for name in ("link_create_tcx", "link_update", "link_detach", "obj_pin"):
            self._follow(patch, bpf_syscall, name)
        for name in ("attach", "detach"):
            self._follow(patch, attach, name)

    def _follow(self, patch: pytest.MonkeyPatch, module: object, name: str) -> None:
        step: Callable[..., object] = getattr(module, name)

        def followed(*arguments: object, **options: object) -> object:
            try:
                return step(*arguments, **options)
            finally:
                self.look(name)

        patch.setattr(module, name, followed)

    def look(self, step: str) -> None:
        self.n_looks += 1
        self.open += [f"{name} after {step}" for name in up() - hooked()]


def test_no_own_device_is_up_without_its_hook(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first load, a load without the options that need the devices, a load with them, and an
    unload.
    """
    watch = Watch(monkeypatch)
    for with_devices in (True, False, True):
        load(lab, bundle, with_devices)
        assert lab.at["a"].within(up) == (set(OWN) if with_devices else set())
    lab.unload("a")
    lab.loaded.discard("a")
    assert watch.n_looks > 30 and watch.open == []


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_own_device_is_up_after_a_command_killed_while_removing_hooks(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """The command is killed at each of the first hooks that a load or an unload detaches."""
    load(lab, bundle, with_devices=True)
    for step in (lambda: load(lab, bundle, with_devices=False), lambda: lab.unload("a")):
        with monkeypatch.context() as patch:
            patch.setattr(bpf_syscall, "link_detach", _deadly(bpf_syscall.link_detach, nth))
            killed(step)
        assert lab.at["a"].within(lambda: up() - hooked()) == set()
        load(lab, bundle, with_devices=True)
        assert lab.at["a"].within(lambda: up() & hooked()) == set(OWN)


def _deadly(step: Callable[[int], None], nth: int) -> Callable[[int], None]:
    """The step, after which the process dies when it has done so many."""
    done = []

    def stepped(link: int) -> None:
        step(link)
        done.append(link)
        if len(done) == nth:
            die()

    return stepped


def test_a_device_without_its_hook_stays_down_until_a_load_attaches_it(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It also stays down when the load that would attach the hook fails."""
    load(lab, bundle, with_devices=True)
    for pin in (lab.bpffs("a") / "links").iterdir():
        if pin.name.endswith(("tunnel", "reassembly", "route")):
            pin.unlink()  # the last that holds the link
    with monkeypatch.context() as patch:
        patch.setattr("policyc.runtime.switch.store", _fail)
        with pytest.raises(HostError, match="no word"):
            load(lab, bundle, with_devices=True)
    assert lab.at["a"].within(lambda: up() - hooked()) == set()
    load(lab, bundle, with_devices=True)
    assert lab.at["a"].within(lambda: up() & hooked()) == set(OWN)


def _fail(*_: object) -> None:
    raise HostError("no word can be stored")


@pytest.mark.parametrize("which", ["load", pytest.param("unload", marks=pytest.mark.slow)])
def test_no_own_device_is_up_without_its_hook_when_pyroute2_is_missing(
    lab: TwoNodes, bundle: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """pyroute2 may be uninstalled after the load that made the devices."""
    load(lab, bundle, with_devices=True)
    assert lab.at["a"].within(up) == set(OWN), "the test is not blind"
    watch = Watch(monkeypatch)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyroute2", None)
        rtnetlink._netlink.cache_clear()
        assert not rtnetlink.is_usable()
        if which == "load":
            load(lab, bundle, with_devices=False)
        else:
            lab.unload("a")
            lab.loaded.discard("a")
    assert lab.at["a"].within(there) == set()
    assert watch.n_looks and watch.open == []


def test_a_foreign_device_of_the_same_name_is_left_alone(lab: TwoNodes, bundle: Path) -> None:
    """Its address or port differs. The name alone does not make it a device of policyc."""
    others = (
        ("add", tunnel.NAME, "type", "vxlan", "id", "7", "dstport", "4789"),
        *(
            ("add", name, "type", "veth", "peer", "name", f"peer{n}")
            for n, name in enumerate(OWN[1:])
        ),
    )
    load(lab, bundle, with_devices=False)
    for each in others:
        lab.at["a"].within(partial(_said, "ip", "link", *each))
    lab.unload("a")
    lab.loaded.discard("a")
    for name in OWN:  # fails where it is gone
        lab.at["a"].within(partial(_said, "ip", "link", "del", name))
