# SPDX-License-Identifier: Apache-2.0
"""Hooks of earlier loads: kept where a device lost its pod, otherwise found and detached."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from policyc.runtime import switch
from policyc.runtime.attach import (
    clsact,
    leftovers,
    tcx,
)
from policyc.runtime.attach.attach import (
    BY_ROLE,
    Mode,
)
from policyc.runtime.kernel import (
    bpf_syscall,
    rtnetlink,
)
from tests.kernel.support.killed import die, killed
from tests.kernel.support.node_under_test import (
    HOSTS,
    UPLINK,
    A,
    B,
    C,
    NodeUnderTest,
    endpoint,
    ip,
)
from tests.kernel.support.objects import other_hooks
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.table_policy import ANY
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
modes = pytest.mark.parametrize("mode", ["tcx", pytest.param("clsact", marks=pytest.mark.slow)])

ONLY_A = [endpoint("a", A, "pca"), endpoint("c", C, None)]


def _attached(node: NodeUnderTest, device: str) -> set[str]:
    """How our hooks are attached there, by both kinds of asking."""
    found: set[str] = set()
    for hook in BY_ROLE["pod"]:
        if clsact.find(node.ifindex[device], hook.direction):
            found.add("clsact")
        if tcx.find(node.pins.link(node.ifindex[device], hook.program)):
            found.add("tcx")
    return found


def _killed(step: Callable[[], object], at: str, module: object, patch: pytest.MonkeyPatch) -> None:
    """Run a step in a child that dies by SIGKILL when it calls a function of a module."""

    def patched() -> None:
        patch.setattr(module, at, die)
        step()

    killed(patched)


@modes
def test_a_device_whose_pod_left_the_file_stays_filtered(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy().allow("c", "a", ANY), mode=mode)
    node.load(node.policy().allow("c", "a", ANY), mode=mode, entries=ONLY_A)
    assert _attached(node, "pcb") == {mode}
    assert not node.sent_by("b", frame(C, A, udp(1, 2)))
    assert not node.sent_by("b", frame(B, A, udp(1, 2)))
    assert not node.sent_to("b", frame(A, B, udp(1, 2)), came_in="pca")
    assert node.drops() == {"spoofed ip": 2, "not for pod": 1}
    found = node.status()
    assert found is not None and found.unprotected == ()
    assert found.programs[0].attached == (f"pca ({mode})", f"pcb ({mode}, no pod)")
    node.load(node.policy(), mode=mode, entries=ONLY_A)
    assert _attached(node, "pcb") == {mode}
    node.load(node.policy().allow("b", "a", ANY), mode=mode)
    assert node.sent_by("b", frame(B, A, udp(1, 2)))
    node.load(node.policy(), mode=mode, entries=ONLY_A)
    assert node.unload()
    assert _attached(node, "pcb") == set()


@modes
def test_a_device_removed_after_its_pod_is_forgotten(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    loaded = node.load(node.policy(), mode=mode, entries=ONLY_A)
    assert [each.interface for each in loaded.generation.former] == ["pcb"]
    ip("link", "del", "pcb")
    found = node.status()
    assert found is not None and found.unprotected == ()
    loaded = node.load(node.policy(), mode=mode, entries=ONLY_A)
    assert loaded.generation.former == ()
    assert not any(path.name.startswith(f"{node.ifindex['pcb']}-") for path in _links(node))


def _links(node: NodeUnderTest) -> list[Path]:
    return list(node.pins.links.iterdir())


@modes
def test_hooks_without_a_pod_are_replaced_with_the_others(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    other = other_hooks(node.objects, node.folder / "other")
    loaded = node.load(node.policy(), mode=mode, objects=other, entries=ONLY_A)
    assert loaded.hooks_replaced
    found = node.status()
    assert found is not None
    assert found.programs[1].attached == (f"pca ({mode})", f"pcb ({mode}, no pod)")


@pytest.mark.parametrize(("before", "after"), [("tcx", "clsact"), ("clsact", "tcx")])
@pytest.mark.parametrize("then", ["load", "unload"])
def test_the_sweep_of_a_load_killed_after_its_switch_is_completed(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, before: Mode, after: Mode, then: str
) -> None:
    """The record lists what the load had to detach."""
    node.load(node.policy(), mode=before)
    _killed(lambda: node.load(node.policy(), mode=after), "sweep", leftovers, monkeypatch)
    node.n_bundles += 1
    assert _attached(node, "pcb") == {"tcx", "clsact"}
    if then == "load":
        node.load(node.policy(), mode=after)
        assert _attached(node, "pcb") == {after}
    assert node.unload()
    assert _attached(node, "pca") == _attached(node, "pcb") == set()


@modes
def test_hooks_of_a_load_killed_before_its_switch_are_removed(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """The record in force does not list the hooks."""
    node.load(node.policy(), mode="tcx", entries=ONLY_A)
    _killed(lambda: node.load(node.policy(), mode=mode), "store", switch, monkeypatch)
    node.n_bundles += 1
    assert mode in _attached(node, "pca") and mode in _attached(node, "pcb")
    node.load(node.policy(), mode="tcx", entries=ONLY_A)
    assert _attached(node, "pca") == {"tcx"}
    assert node.unload()
    assert _attached(node, "pca") == _attached(node, "pcb") == set()


@modes
@pytest.mark.parametrize("then", ["load", "unload"])
def test_a_device_without_a_pod_is_found_when_the_record_is_lost(
    node: NodeUnderTest, mode: Mode, then: str
) -> None:
    node.load(node.policy(), mode=mode)
    node.load(node.policy(), mode=mode, entries=ONLY_A)
    shutil.rmtree(node.state_root)
    if then == "load":
        loaded = node.load(node.policy(), mode=mode, entries=ONLY_A)
        assert [each.interface for each in loaded.generation.former] == ["pcb"]
    assert node.unload()
    assert _attached(node, "pcb") == set()


@modes
def test_a_device_that_was_renamed_keeps_its_hooks(node: NodeUnderTest, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    ip("link", "set", "pcb", "down")
    ip("link", "set", "pcb", "name", "pcbb")
    node.load(node.policy(), mode=mode, entries=[*ONLY_A, endpoint("b", HOSTS["b"], "pcbb")])
    assert _attached(node, "pcb") == {mode}
    found = node.status()
    assert found is not None and found.unprotected == ()
    ip("link", "set", "pcbb", "name", "pcb")


def test_a_link_pinned_by_another_release_is_removed(node: NodeUnderTest) -> None:
    """No load of this release fails because of such a link, and every load removes it."""
    node.load(node.policy(), mode="tcx")
    strange = node.pins.link(node.ifindex["pcb"], "pc_from_elsewhere")
    with bpf_syscall.obj_get(node.pins.hook("pc_from_pod")) as fd:
        tcx.attach(fd, node.ifindex[UPLINK], bpf_syscall.ATTACH_TCX_INGRESS, strange)
    node.load(node.policy(), mode="tcx")
    assert not strange.exists()
    assert _attached(node, "pcb") == {"tcx"}


class _Vanishing:
    """A device that is deleted right before the step of that number in which the kernel is asked."""

    def __init__(self, patch: pytest.MonkeyPatch, device: str, step: int) -> None:
        self._device, self._step, self.n_steps = device, step, 0
        real = rtnetlink.connection

        @contextmanager
        def connection(*given: str) -> Iterator[object]:
            with real(*given) as netlink:
                yield _Counted(netlink, self)

        patch.setattr(rtnetlink, "connection", connection)
        patch.setattr(bpf_syscall, "bpf", self.counted(bpf_syscall.bpf))

    def counted(self, asks: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object, **named: object) -> object:
            if self.n_steps == self._step:
                ip("link", "del", self._device)
            self.n_steps += 1
            return asks(*given, **named)

        return counted


class _Counted:
    """A netlink socket whose questions are counted."""

    def __init__(self, netlink: object, by: _Vanishing) -> None:
        self._netlink, self._by = netlink, by

    def __getattr__(self, name: str) -> Callable[..., object]:
        return self._by.counted(getattr(self._netlink, name))


@modes
def test_a_device_may_disappear_at_any_step_of_an_unload(node: NodeUnderTest, mode: Mode) -> None:
    def unload(step: int) -> int:
        with pytest.MonkeyPatch.context() as patch:
            vanishing = _Vanishing(patch, "pcb", step)
            assert node.unload()
        assert not node.pins.is_there() and not _attached(node, "pca")
        return vanishing.n_steps

    node.load(node.policy(), mode=mode)
    n_steps = unload(-1)
    for step in range(n_steps):
        node.load(node.policy(), mode=mode)
        unload(step)
        node.make_device("pcb")
