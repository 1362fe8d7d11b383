# SPDX-License-Identifier: Apache-2.0
"""A tenant's Service that asks for a foreign address: outside `--external-cidr`, or the node's own
port.
"""

import json
import socket

import pytest

from policyc.compiler.cli.main import run as policyc
from tests.kernel.support.external_ranges import (
    IN_RANGE,
    OUTSIDE,
    RANGES,
    Client,
    load,
    written,
)
from tests.kernel.support.node_commands import (
    Commands,
    commands,
)
from tests.kernel.support.node_under_test import NODE
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import PORT
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
__all__ = ["commands"]


@pytest.mark.parametrize("family", [4, 6])
def test_a_service_does_not_take_an_address_outside_the_external_ranges(
    commands: Commands, family: int
) -> None:
    """Neither the load that names the ranges nor a later command without them serves the address."""
    client = Client(commands.node)
    services = str(written(commands, OUTSIDE, IN_RANGE))
    load(commands, "--services", services)
    assert client.is_served(OUTSIDE, family), "the test is not blind: without ranges it is taken"
    load(commands, "--services", services, *RANGES)
    assert client.is_served(IN_RANGE, family)
    assert not client.is_served(OUTSIDE, family)
    words = ["node", "services", services, "--bpffs", str(commands.node.bpffs)]
    assert policyc(words) == 0
    assert client.is_served(IN_RANGE, family)
    assert not client.is_served(OUTSIDE, family)
    assert json.loads(commands.status())["services_left_out"] == {"conflicts": 2}


@pytest.mark.parametrize("family", [4, 6])
def test_a_service_does_not_take_a_port_where_the_node_listens(
    commands: Commands, wire: ServiceWire, family: int
) -> None:
    client = Client(commands.node)
    commands.node.node_addresses = (NODE.ip4, NODE.ip6)
    services = str(written(commands, NODE))
    load(commands, "--services", services)
    assert client.is_served(NODE, family), "the test is not blind: no socket waits there yet"
    wire.server(None, family, socket.SOCK_STREAM, PORT)
    load(commands, "--services", services)
    assert not client.is_served(NODE, family)
