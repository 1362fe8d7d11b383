# SPDX-License-Identifier: Apache-2.0
"""A pod that no load lists sends to external hosts, to other pods and to the node's ports.

Its device has no hooks, so without `--deny-devices` it is open whatever policies say.
"""

import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.load import node as runtime
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


def ways(new: NewPod, family: int) -> dict[str, bool]:
    """The attempts of an attacker in the pod, and of one that wants to reach the pod."""
    return {
        "to outside": new.reaches("c", family),
        "to outside by TCP": new.connects("c", family),
        "from outside": new.is_reached("c", family),
        "to the node": new.reaches(None, family),
        "to the node by TCP": new.connects(None, family),
        "from the node": new.is_reached(None, family),
        "to a pod": new.reaches("a", family),
        "from a pod": new.is_reached("a", family),
    }


@families
@modes
def test_an_unknown_pod_is_cut_off(new: NewPod, family: int, mode: str) -> None:
    load(new.node, mode, "--deny-devices", PATTERN)
    assert not any(ways(new, family).values()), ways(new, family)


@families
def test_an_unknown_pod_is_open_without_the_option(new: NewPod, family: int) -> None:
    """docs/node.md says so first. It also shows that the attacks above would be seen."""
    load(new.node, "tcx")
    found = ways(new, family)
    pods = {"to a pod", "from a pod"}  # which have hooks of their own
    assert {name for name, passes in found.items() if passes} == found.keys() - pods
