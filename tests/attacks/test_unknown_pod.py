# SPDX-License-Identifier: Apache-2.0
"""A pod that no load lists sends to external hosts, to other pods and to the node's ports.

Its device has no hooks, so without `--deny-devices` it is open whatever policies say.
"""

from collections.abc import Callable, Collection

import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.load import node as runtime
from tests.kernel.support.arrival import SILENCE, WAITS
from tests.kernel.support.new_pod import (
    PATTERN,
    NewPod,
)
from tests.kernel.support.node_under_test import (
    UPLINK,
    NodeUnderTest,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.table_policy import NamePlacer

pytestmark = pytest.mark.kernel
families = pytest.mark.parametrize("family", [4, 6])
modes = pytest.mark.parametrize("mode", ["tcx", "clsact"])


@pytest.fixture
def new(node: NodeUnderTest, wire: ServiceWire, monkeypatch: pytest.MonkeyPatch) -> NewPod:
    """A pod that came after the endpoints file was written."""
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    return NewPod(node, wire)


def load(node: NodeUnderTest, mode: str, *options: str) -> None:
    """Everything is denied to every pod."""
    files = [str(node.bundle(node.policy())), "--endpoints", str(node.endpoints())]
    where = ["--bpffs", str(node.bpffs), "--uplink", UPLINK, "--attach", mode]
    assert policyc(["node", "load", *files, *where, *options]) == 0


WAYS: dict[str, Callable[[NewPod, int, float], bool]] = {
    "to outside": lambda new, *how: new.reaches("c", *how),
    "to outside by TCP": lambda new, *how: new.connects("c", *how),
    "from outside": lambda new, *how: new.is_reached("c", *how),
    "to the node": lambda new, *how: new.reaches(None, *how),
    "to the node by TCP": lambda new, *how: new.connects(None, *how),
    "from the node": lambda new, *how: new.is_reached(None, *how),
    "to a pod": lambda new, *how: new.reaches("a", *how),
    "from a pod": lambda new, *how: new.is_reached("a", *how),
}
"""The attempts of an attacker in the pod, and of one that wants to reach the pod."""
TO_PODS = {"to a pod", "from a pod"}
"""Those pods have hooks of their own."""


def passing(new: NewPod, family: int, expected: Collection[str]) -> set[str]:
    """The ways that packets take; they are waited for where they are expected."""
    patience = {name: WAITS if name in expected else SILENCE for name in WAYS}
    return {name for name, way in WAYS.items() if way(new, family, patience[name])}


@families
@modes
def test_an_unknown_pod_is_cut_off(new: NewPod, family: int, mode: str) -> None:
    load(new.node, mode, "--deny-devices", PATTERN)
    assert passing(new, family, ()) == set()


@families
def test_an_unknown_pod_is_open_without_the_option(new: NewPod, family: int) -> None:
    """docs/node.md says so first. It also shows that the attacks above would be seen."""
    load(new.node, "tcx")
    expected = WAYS.keys() - TO_PODS
    assert passing(new, family, expected) == expected
