# SPDX-License-Identifier: Apache-2.0
"""`node load --missing-devices skip`: a pod's device is missing, or disappears during the load."""

import json
from collections.abc import Callable

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import (
    attach,
    clsact,
    tcx,
)
from policyc.runtime.attach.attach import Mode
from policyc.runtime.endpoints import (
    endpoint_maps,
    forwarding,
    pod_devices,
)
from policyc.runtime.state import StateDir
from tests.kernel.support.network import network
from tests.kernel.support.node_commands import Commands, commands
from tests.kernel.support.node_under_test import (
    A,
    B,
    C,
    NodeUnderTest,
    ip,
)
from tests.kernel.support.objects import other_hooks
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

__all__ = ["commands"]

pytestmark = pytest.mark.kernel
modes = pytest.mark.parametrize("mode", ["tcx", pytest.param("clsact", marks=pytest.mark.slow)])


def _skip(mode: str) -> tuple[str, ...]:
    return "--missing-devices", "skip", "--attach", mode


def _passes(node: NodeUnderTest) -> TablePolicy:
    return node.policy().allow("b", "a", ANY).allow("c", "a", ANY).allow("a", "b", ANY)


@modes
def test_a_load_works_without_the_device_of_one_pod(commands: Commands, mode: Mode) -> None:
    node = commands.node
    ip("link", "del", "pcb")
    code, said = commands.load(_passes(node), "--attach", mode)
    assert code == 2
    assert "shop/b has the interface pcb, which does not exist here" in said
    assert "--missing-devices skip" in said
    code, said = commands.load(_passes(node), *_skip(mode))
    assert code == 0
    assert "warning: the device pcb of the pod shop/b is missing" in said
    assert "loaded: epoch 1, 3 endpoints, 1 of this node, 1 without its device" in said
    assert commands.missing() == ["shop/b"]
    assert node.sent_to("a", frame(C, A, udp(1, 2)))
    assert not node.sent_by("a", frame(A, C, udp(3, 4))), "the policy is in force"


def test_status_shows_the_pods_without_a_device(commands: Commands) -> None:
    assert commands.load(_passes(commands.node), *_skip("tcx"))[0] == 0
    assert commands.missing() == []
    assert "without a device" not in commands.status("text")
    ip("link", "del", "pcb")
    assert commands.load(_passes(commands.node), *_skip("tcx"))[0] == 0
    text = commands.status("text")
    assert "1 pod of this node without a device: shop/b" in text
    assert "pcb (missing)" in text


def test_the_address_of_a_pod_without_a_device_stays_protected(commands: Commands) -> None:
    """Policy allows shop/b, so packets with its address from elsewhere must not pass."""
    node = commands.node
    ip("link", "del", "pcb")
    assert commands.load(_passes(node), *_skip("tcx"))[0] == 0
    assert not node.sent_to("a", frame(B, A, udp(1, 2)))
    assert json.loads(commands.status())["drops"] == {"spoofed ip": 1}
    assert node.sent_by("a", frame(A, B, udp(5, 6))), "the egress policy names shop/b"
    assert commands.load(node.policy(), *_skip("tcx"))[0] == 0
    assert not node.sent_by("a", frame(A, B, udp(5, 6))), "and this one does not"


@modes
def test_a_recreated_device_belongs_to_its_pod_again(commands: Commands, mode: Mode) -> None:
    node = commands.node
    assert commands.load(_passes(node), *_skip(mode))[0] == 0
    before = {each["name"]: each["id"] for each in json.loads(commands.status())["endpoints"]}
    ip("link", "del", "pcb")
    assert commands.load(_passes(node), *_skip(mode))[0] == 0
    assert not list(node.pins.links.glob(f"{node.ifindex['pcb']}-*")), "its links are forgotten"
    ip("link", "add", "pcb", "type", "veth", "peer", "name", "pcb.p")
    with network() as own:
        node.ifindex["pcb"] = own.index("pcb")
    code, said = commands.load(_passes(node), *_skip(mode))
    assert code == 0 and "missing" not in said
    assert "3 endpoints, 2 of this node\n" in said
    assert commands.missing() == []
    found = json.loads(commands.status())["endpoints"]
    assert {each["name"]: each["id"] for each in found} == before
    assert node.sent_by("b", frame(B, A, udp(7, 8)))


Step = tuple[object, str, int]
"""Before which call of a function, counted from 0, the device goes."""
BEFORE_ATTACHING: dict[str, Step] = {
    "devices behind": (pod_devices, "require_hooks", 0),
    "bridges": (pod_devices, "require_passed", 0),
    "marks": (pod_devices, "require_scrubbed", 0),
    "peers": (forwarding, "with_peers", 0),
    "endpoints": (endpoint_maps, "write", 0),
    "attaching": (attach, "attach", 1),
}
FIRST_LOAD: dict[tuple[Mode, str], Step] = {
    **{("tcx", name): step for name, step in BEFORE_ATTACHING.items()},
    **{("clsact", name): step for name, step in BEFORE_ATTACHING.items()},
    ("tcx", "second hook"): (tcx, "attach", 3),
    ("clsact", "second hook"): (clsact, "attach", 3),
}


def _goes_before(step: Step, patch: pytest.MonkeyPatch, device: str = "pcb") -> list[bool]:
    """Deletes the device before that call; the list has an element once it has."""
    module, name, count = step
    real: Callable[..., object] = getattr(module, name)
    calls, gone = 0, list[bool]()

    def called(*args: object, **kwargs: object) -> object:
        nonlocal calls
        if calls == count and not gone:
            gone.append(True)
            ip("link", "del", device)
        calls += 1
        return real(*args, **kwargs)

    patch.setattr(module, name, called)
    return gone


@pytest.mark.parametrize(("mode", "step"), FIRST_LOAD, ids=map(" at ".join, FIRST_LOAD))
def test_the_first_load_skips_a_device_that_disappears(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode, step: str
) -> None:
    node = commands.node
    gone = _goes_before(FIRST_LOAD[mode, step], monkeypatch)
    code, said = commands.load(_passes(node), *_skip(mode))
    assert gone, "the step was not met"
    assert code == 0, said
    assert said.count("the device pcb of the pod shop/b is missing") == 1
    assert "1 of this node, 1 without its device" in said
    assert commands.missing() == ["shop/b"]
    assert not list(node.pins.links.glob(f"{node.ifindex['pcb']}-*"))
    assert node.sent_to("a", frame(C, A, udp(1, 2)))
    assert not node.sent_to("a", frame(B, A, udp(1, 2)))


@modes
@pytest.mark.parametrize("step", ["record", "switch"])
def test_a_device_that_disappears_after_its_attachment_is_missed_by_the_next_load(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode, step: str
) -> None:
    """To this load, the device disappears right after its end."""
    where: Step = (StateDir, "write", 0) if step == "record" else (switch, "store", 0)
    gone = _goes_before(where, monkeypatch)
    code, said = commands.load(_passes(commands.node), *_skip(mode))
    assert gone and code == 0, said
    assert commands.load(_passes(commands.node), *_skip(mode))[0] == 0
    assert commands.missing() == ["shop/b"]


@modes
@pytest.mark.parametrize("step", ["endpoints", pytest.param("attaching", marks=pytest.mark.slow)])
def test_a_later_load_with_other_hooks_skips_a_device_that_disappears(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode, step: str
) -> None:
    node = commands.node
    assert commands.load(_passes(node), *_skip(mode))[0] == 0
    node.objects = other_hooks(node.objects, node.folder / "other")
    gone = _goes_before(BEFORE_ATTACHING[step], monkeypatch)
    code, said = commands.load(_passes(node), *_skip(mode))
    assert gone and code == 0, said
    assert commands.missing() == ["shop/b"]
    assert node.sent_to("a", frame(C, A, udp(1, 2)))


@modes
def test_without_the_option_a_load_is_refused_when_a_device_disappears(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    assert _goes_before((attach, "attach", 1), monkeypatch) == []
    code, said = commands.load(_passes(commands.node), "--attach", mode)
    assert code == 3
    assert "the device pcb vanished while it was attached to" in said
    assert "--missing-devices skip" in said
    assert commands.status("text") == "nothing is loaded\n"


def test_every_pod_may_be_without_its_device(commands: Commands) -> None:
    for device in ("pca", "pcb"):
        ip("link", "del", device)
    code, said = commands.load(_passes(commands.node), *_skip("tcx"))
    assert code == 0
    assert "0 of this node, 2 without their devices" in said
    assert commands.missing() == ["shop/a", "shop/b"]
