# SPDX-License-Identifier: Apache-2.0
"""A bpffs root belongs to the network namespace that it was loaded in."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from policyc.runtime.attach import network
from policyc.runtime.errors import HostError
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.table_policy import ANY
from tests.kernel_corpus.surroundings import own_network
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]

COMMANDS: dict[str, Callable[[NodeUnderTest], object]] = {
    "load": lambda node: node.load(node.policy()),
    "status": lambda node: node.status(),
    "unload": lambda node: node.unload(),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_from_another_namespace_is_refused(node: NodeUnderTest, command: str) -> None:
    node.load(node.policy().allow("a", "b", ANY))
    with own_network():
        other = NodeUnderTest(node.folder, node.objects, node.bpffs)
        other.make_devices()
        other.n_bundles = 10
        with pytest.raises(HostError, match="belongs to the network namespace net") as caught:
            COMMANDS[command](other)
        assert "another --bpffs" in caught.value.hint
    assert node.sent_by("a", frame(A, B, udp(1, 2)))
    found = node.status()
    assert found is not None and (found.epoch, found.unprotected) == (1, ())
    assert node.unload()


def test_unload_works_after_its_namespace_was_deleted(node: NodeUnderTest) -> None:
    with own_network():
        other = NodeUnderTest(node.folder, node.objects, node.bpffs)
        other.make_devices()
        other.load(other.policy())
    node.n_bundles = 10
    deadline = time.monotonic() + 60
    while True:  # the kernel takes the namespace down when it finds the time
        try:
            node.load(node.policy())
        except HostError as error:
            if "no longer exists" in error.hint or time.monotonic() > deadline:
                assert "no longer exists: run `policyc node unload`" in error.hint
                break
            time.sleep(0.05)
    assert node.unload()
    assert "no longer exists" in node.warnings[-1]
    assert not node.bpffs.exists()
    node.load(node.policy().allow("a", "b", ANY))
    found = node.status()
    assert found is not None and found.unprotected == ()


def test_namespaces_held_by_a_file_or_a_mount_exist(node: NodeUnderTest, tmp_path: Path) -> None:
    held = tmp_path / "net"
    held.touch()
    with own_network():
        name = network.here()
        subprocess.run(["mount", "--bind", "/proc/self/ns/net", str(held)], check=True)
    try:
        assert network._exists(name, node.pins)
    finally:
        subprocess.run(["umount", str(held)], check=True)
    assert not network._exists(name, node.pins)


def test_a_later_namespace_with_the_same_number_is_another_one(node: NodeUnderTest) -> None:
    """The kernel gives the number of a namespace that is gone to a new one, and never its cookie."""
    node.load(node.policy())
    (record,) = node.state_root.glob("*/network")
    number, _, cookie = network.here().rpartition(":")
    gone = f"{number}:{int(cookie) + (1 << 40)}"
    record.write_text(json.dumps(gone))
    node.n_bundles = 10
    with pytest.raises(HostError, match="belongs to the network namespace net"):
        node.load(node.policy())
    record.write_text(json.dumps(number))  # by an earlier release
    node.load(node.policy())
    node.unload()
    assert not network._exists(gone, node.pins)
    assert network._exists(number, node.pins)
