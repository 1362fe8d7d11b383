# SPDX-License-Identifier: Apache-2.0
"""Real TCP through the node. A test run cannot show locally generated packets."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kernel.support.arrival import SILENCE, accepted, is_silent
from tests.kernel.support.node_under_test import (
    HOSTS,
    NODE,
    NodeUnderTest,
)
from tests.kernel.support.table_policy import (
    ANY,
    tcp_port,
)
from tests.kernel.support.wire import (
    Wire,
)

pytestmark = pytest.mark.kernel


@pytest.fixture
def wire(node: NodeUnderTest) -> Iterator[Wire]:
    with ExitStack() as owned:
        yield Wire(node, owned)


@pytest.mark.parametrize("mode", ["tcx", "clsact"])
def test_pods_reach_each_other_where_policy_allows(
    node: NodeUnderTest, wire: Wire, mode: str
) -> None:
    for port in (80, 81):
        wire.listen("b", port)
        wire.listen("a", port)
    assert wire.connect("a", HOSTS["b"].ip4, 81)
    node.load(node.policy().allow("a", "b", tcp_port(80)), mode=mode)  # type: ignore[arg-type]
    assert wire.connect("a", HOSTS["b"].ip4, 80)
    assert not wire.connect("a", HOSTS["b"].ip4, 81, SILENCE)
    assert not wire.connect("b", HOSTS["a"].ip4, 80, SILENCE)
    assert set(node.drops()) == {"policy"}
    assert node.unload()
    assert wire.connect("b", HOSTS["a"].ip4, 80)


def test_the_node_reaches_isolated_pods_and_they_do_not_reach_the_node(
    node: NodeUnderTest, wire: Wire
) -> None:
    wire.listen("a", 8080)
    wire.listen(None, 22)
    node.load(node.policy())
    assert wire.connect(None, HOSTS["a"].ip4, 8080)
    assert not wire.connect("a", NODE.ip4, 22, SILENCE)
    node.load(node.policy().allow_egress("a", "world", tcp_port(22)))
    assert wire.connect("a", NODE.ip4, 22)


def test_an_open_connection_follows_the_policy(node: NodeUnderTest, wire: Wire) -> None:
    server = wire.listen("b", 80)
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    client = wire.connect("a", HOSTS["b"].ip4, 80)
    assert client
    with accepted(server) as end:
        node.load(node.policy().allow("a", "b", ANY))
        end.sendall(b"the first packet after the change is a reply")
        assert client.recv(100).startswith(b"the first")
        node.load(node.policy())
        client.sendall(b"denied by now")
        assert is_silent(end)
