# SPDX-License-Identifier: Apache-2.0
"""The namespace for reassembly exists while a load asks for it."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime import switch
from policyc.runtime.devices import (
    own_device,
    reassembly,
)
from policyc.runtime.errors import HostError
from policyc.runtime.kernel import nf_defrag
from policyc.runtime.load import node as runtime
from tests.kernel.support.fragment_frames import (
    first,
    later,
)
from tests.kernel.support.killed import (
    die,
    killed,
)
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.table_policy import (
    NamePlacer,
    TablePolicy,
    udp_port,
)

pytestmark = pytest.mark.kernel
REDIRECT = 7


@pytest.fixture
def node(node: NodeUnderTest) -> Iterator[NodeUnderTest]:
    """Unloaded in the end, as a mount outlives the devices."""
    yield node
    node.unload()


def policy(node: NodeUnderTest) -> TablePolicy:
    return node.policy().allow("a", "b", udp_port(53))


def is_there() -> bool:
    return reassembly.NAME in {name for _, name in socket.if_nameindex()}


def held(node: NodeUnderTest) -> list[Path]:
    """Mounts below the folder of records."""
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(line.split()[4]) for line in mounts if str(node.state_root) in line]


def works(node: NodeUnderTest) -> bool:
    """Whether a later fragment is sent to reassembly."""
    return node.answered("a", later(A, B, 4))[0] == REDIRECT


def test_the_namespace_exists_only_while_a_load_asks_for_reassembly(node: NodeUnderTest) -> None:
    node.load(policy(node), reassemble=True)
    assert is_there() and works(node) and len(held(node)) == 1
    found = node.status()
    assert found and not found.unprotected
    assert found.reassembly == {"sent": 1, "back": 0, "over": 0}
    node.load(policy(node), reassemble=True)
    assert is_there() and works(node) and len(held(node)) == 1
    node.load(policy(node))
    assert not is_there() and not works(node) and not held(node)
    found = node.status()
    assert found and found.reassembly is None
    node.load(policy(node), reassemble=True)
    node.unload()
    assert not is_there() and not held(node) and not node.state_root.exists()


def test_the_command_enables_reassembly_and_status_counts_fragments(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    node.node_addresses = ()
    bpffs = ["--bpffs", str(node.bpffs)]
    bundle, endpoints = str(node.bundle(policy(node))), str(node.endpoints())
    said = "out-of-order fragments: 1 sent to reassembly, 0 reassembled, 0 over the limit"
    try:
        load = ["node", "load", bundle, "--endpoints", endpoints, *bpffs]
        assert policyc([*load, "--reassemble"]) == 0
        assert works(node)
        assert policyc(["node", "status", *bpffs]) == 0
        assert said in capsys.readouterr().out
        assert policyc(load) == 0
        assert policyc(["node", "status", *bpffs]) == 0
        assert "out of order" not in capsys.readouterr().out
    finally:
        assert policyc(["node", "unload", *bpffs]) == 0
    assert not is_there()


def test_a_first_fragment_follows_later_ones_that_were_sent_to_reassembly(
    node: NodeUnderTest,
) -> None:
    """If the first fragment arrives first, the others take its path."""
    node.load(policy(node), reassemble=True)
    for family in (4, 6):
        assert node.answered("a", later(A, B, family))[0] == REDIRECT
        assert node.answered("a", first(A, B, family))[0] == REDIRECT
        assert node.sent_by("a", first(A, B, family, ident=2))
        assert node.sent_by("a", later(A, B, family, ident=2))
    assert node.drops() == {}


def test_a_load_reports_a_kernel_without_reassembly_and_drops_fragments(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(errno.EOPNOTSUPP, "nf_tables: Operation not supported")

    monkeypatch.setattr(nf_defrag, "enable", refuse)
    node.load(policy(node), reassemble=True)
    (said,) = node.warnings
    assert said.startswith("out-of-order fragments are dropped: ")
    assert "nf_tables: Operation not supported" in said
    assert not is_there() and not held(node)
    assert not node.sent_by("a", later(A, B, 4))
    assert node.drops() == {"fragment": 1}
    found = node.status()
    assert found and found.reassembly is None


def test_a_foreign_device_of_the_same_name_stays(node: NodeUnderTest) -> None:
    from tests.kernel.support.node_under_test import ip

    ip("link", "add", reassembly.NAME, "type", "veth", "peer", "name", "other")
    node.load(policy(node), reassemble=True)
    assert "File exists" in node.warnings[0]
    node.unload()
    assert is_there() and not held(node)
    ip("link", "del", reassembly.NAME)


@pytest.mark.parametrize("before", [False, True], ids=["the first load", "a later load"])
def test_a_load_that_fails_keeps_the_previous_state(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    if before:
        node.load(policy(node))

    def fail(*_: object) -> None:
        raise HostError("no")

    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fail)
        with pytest.raises(HostError, match="no"):
            node.load(policy(node), reassemble=True)
    assert not is_there() and not held(node)
    if before:
        assert not works(node)
    node.load(policy(node), reassemble=True)
    with monkeypatch.context() as patched:
        patched.setattr(switch, "store", fail)
        with pytest.raises(HostError, match="no"):
            node.load(policy(node))
    assert is_there() and works(node)


@pytest.mark.parametrize("then", ["load", "load without", "unload"])
@pytest.mark.parametrize("at", ["while it is made", "before it is up", "at the switch"])
def test_the_next_command_cleans_up_after_a_killed_load(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, at: str, then: str
) -> None:
    place = {
        "while it is made": (own_device, "quieten"),
        "before it is up": (reassembly, "start"),
        "at the switch": (switch, "store"),
    }[at]

    def step() -> None:
        monkeypatch.setattr(*place, die)
        node.load(policy(node), reassemble=True)

    killed(step)
    assert is_there()
    node.n_bundles += 1
    if then == "unload":
        node.unload()
    else:
        node.load(policy(node), reassemble=then == "load")
    assert is_there() == is_expected(node, then) and len(held(node)) == (then == "load")


def is_expected(node: NodeUnderTest, then: str) -> bool:
    if then != "load":
        return False
    assert works(node)
    return True
