# SPDX-License-Identifier: Apache-2.0
"""Several CPUs want one SNAT port and one connection gets it: a model in every interleaving, and
the kernel's CPUs for a while.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from policyc.runtime.kernel import bpf_syscall
from tests.kernel.support.node_under_test import (
    LOCAL,
    UPLINK,
    A,
    B,
    NodeUnderTest,
    run_through,
)
from tests.kernel.support.packets import udp
from tests.kernel.support.port_race_model import (
    NOW,
    THEN,
    WAITS,
    Half,
    Place,
    Rival,
    Step,
    TornError,
    by_deletion,
    by_lock,
    by_swap_alone,
    outcomes,
)
from tests.kernel.support.snat_frames import (
    LOW,
    expire,
    loaded,
    port_of,
    sent,
)

THERE = {
    "nobody's": Place(None),
    "expired": Place(Half("gone", "gone", NOW - 1)),
    "a pod's": Place(Half("a", "a", THEN)),
}


def owners(step: Step, place: Place, pods: tuple[str, ...]) -> set[tuple[tuple[bool, ...], str]]:
    """Which CPUs got the port and which pod has it in the end, in all orders without a CPU that
    gave up.
    """
    return {
        (tuple(bool(cpu.has) for cpu in cpus), whose)
        for cpus, whose in ends_of(step, place, pods)
        if all(cpu.waits < WAITS for cpu in cpus)
    }


def ends_of(step: Step, place: Place, pods: tuple[str, ...]) -> Iterator[tuple[list[Rival], str]]:
    for then, cpus in outcomes(step, deepcopy(place), pods):
        yield cpus, then.half.whose if then.half else ""


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize(
    "pods", [("a", "b"), ("a", "a"), ("a", "b", "c"), ("a", "a", "b")], ids=str
)
def test_one_pod_gets_the_port_in_every_interleaving(there: str, pods: tuple[str, ...]) -> None:
    found = owners(by_lock, THERE[there], pods)
    for given, whose in found:
        assert whose in pods
        assert {pod for pod, has in zip(pods, given, strict=True) if has} == {whose}
    if there != "a pod's":
        assert {whose for _, whose in found} == set(pods), "each may be first"


@pytest.mark.parametrize("there", THERE)
def test_a_cpu_that_gives_up_holds_no_port(there: str) -> None:
    """It has waited for its bound, and tries another port."""
    for cpus, whose in ends_of(by_lock, THERE[there], ("a", "b", "a")):
        assert all(cpu.pod == whose or not cpu.has for cpu in cpus)


def test_the_model_detects_unsafe_algorithms() -> None:
    assert ((True, True), "b") in owners(by_deletion, THERE["expired"], ("a", "b"))
    with pytest.raises(TornError):
        owners(by_swap_alone, THERE["expired"], ("a", "b"))
    assert {given for given, _ in owners(by_deletion, THERE["nobody's"], ("a", "b"))} == {
        (True, False),
        (False, True),
    }


def at_once(works: list[Callable[[], None]]) -> None:
    """Each on a CPU of its own, as far as there are."""
    cpus = sorted(os.sched_getaffinity(0))
    failed: list[BaseException] = []

    def run(n: int) -> None:
        os.sched_setaffinity(0, {cpus[n % len(cpus)]})
        try:
            works[n]()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


ROUNDS = 150
PORTS = range(LOW, LOW + 8)


@pytest.mark.kernel
@pytest.mark.parametrize("family", [4, 6])
def test_no_two_connections_get_the_same_snat_port(node: NodeUnderTest, family: int) -> None:
    """Two pods use the range's ports as source ports to one server. Earlier entries are expired."""
    loaded(node, ports=PORTS)
    together = threading.Barrier(2)
    left: dict[str, dict[int, int]] = {"a": {}, "b": {}}

    def send(pod: str) -> None:
        host = {"a": A, "b": B}[pod]
        device = node.ifindex[LOCAL[pod]]
        frames = [sent(udp(port, 53), family, host) for port in PORTS[:4]]
        with bpf_syscall.obj_get(node.pins.hook("pc_to_uplink")) as fd:
            for _ in range(ROUNDS):
                together.wait()
                if pod == "a":
                    expire(node)
                together.wait()
                for port, frame in zip(PORTS, frames, strict=False):
                    _, out = run_through(fd, frame, node.ifindex[UPLINK], device)
                    left[pod][port] = port_of(out, family)
                together.wait()
                if pod == "a":
                    used = Counter([*left["a"].values(), *left["b"].values()])
                    assert max(used.values()) == 1, left

    at_once([lambda: send("a"), lambda: send("b")])
    assert node.drops() == {}


@pytest.mark.kernel
@pytest.mark.parametrize("family", [4, 6])
def test_a_connection_that_starts_on_two_cpus_gets_one_port(
    node: NodeUnderTest, family: int
) -> None:
    loaded(node, ports=PORTS)
    together = threading.Barrier(2)
    left: list[dict[int, int]] = [{}, {}]

    def send(n: int) -> None:
        frames = [sent(udp(port, 53), family, A) for port in (4000, 4001, 4002)]
        with bpf_syscall.obj_get(node.pins.hook("pc_to_uplink")) as fd:
            for _ in range(ROUNDS):
                together.wait()
                if n == 0:
                    expire(node)
                together.wait()
                for i, frame in enumerate(frames):
                    _, out = run_through(fd, frame, node.ifindex[UPLINK], node.ifindex["pca"])
                    left[n][i] = port_of(out, family)
                together.wait()
                if n == 0:
                    assert left[0] == left[1]

    at_once([lambda: send(0), lambda: send(1)])
    with node.shared_map("pc_snat_entries") as fd:
        info = bpf_syscall.map_info(fd)
        assert len(list(bpf_syscall.map_keys(fd, info.key_size))) <= 2 * len(PORTS) + 6
    assert node.drops() == {}
