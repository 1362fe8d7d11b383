# SPDX-License-Identifier: Apache-2.0
"""`--external-cidr` stays in force for later commands. `node follow` notices changes without an
event.
"""

import errno
import ipaddress
import json
import os
import socket

import jsonschema
import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.services.update import update_services
from policyc.runtime.state import StateDir
from tests.eventually import eventually
from tests.kernel.support.device_watch import (
    Follower,
    following,
)
from tests.kernel.support.external_ranges import (
    IN_RANGE,
    OUTSIDE,
    RANGES,
    Client,
    load,
    objects,
    written,
)
from tests.kernel.support.node_commands import (
    SCHEMA,
    Commands,
    commands,
)
from tests.kernel.support.node_under_test import (
    NODE,
    ip,
)
from tests.kernel.support.service_wire import ServiceWire
from tests.kernel.support.service_yaml import PORT
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
__all__ = ["commands"]
LEFT_OUT = "198.51.100.9 port 80/TCP, 2001:db8:51::9 port 80/TCP: is outside of --external-cidr"


def ranges(commands: Commands) -> list[str]:
    found = json.loads(commands.status())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    named: list[str] = found["external_cidrs"]
    return named


def tell(follower: Follower, given: list[JsonValue]) -> None:
    for each in given:
        event = {"type": "ADDED", "object": each.raw}
        os.write(follower.stdin, json.dumps(event).encode())
    eventually(lambda: "in force" in follower.said(), "the watch's first objects are in force")


def test_the_ranges_of_a_load_hold_for_later_commands(commands: Commands) -> None:
    client = Client(commands.node)
    files = "--services", str(written(commands, OUTSIDE, IN_RANGE))
    load(commands, *RANGES)
    assert ranges(commands) == ["203.0.113.0/24", "2001:db8:113::/48"]
    said = load(commands, *files)
    assert LEFT_OUT in said and "CVE-2020-8554" not in said
    assert policyc(["node", "services", files[1], "--bpffs", str(commands.node.bpffs)]) == 0
    for family in (4, 6):
        assert not client.is_served(OUTSIDE, family)
        assert client.is_served(IN_RANGE, family), "the test is not blind"
    assert "externalIPs are limited to: 203.0.113.0/24 2001:db8:113::/48" in commands.status("text")
    said = load(commands, "--external-cidr", "", *files)
    assert LEFT_OUT not in said and "CVE-2020-8554" in said
    assert ranges(commands) == [] and client.is_served(OUTSIDE)


def test_the_ranges_of_services_hold_for_later_commands(commands: Commands) -> None:
    load(commands)
    words = ["node", "services", str(written(commands)), "--bpffs", str(commands.node.bpffs)]
    assert policyc([*words, *RANGES]) == 0
    assert ranges(commands) == ["203.0.113.0/24", "2001:db8:113::/48"]
    assert LEFT_OUT in load(commands, "--services", str(written(commands, OUTSIDE)))


def test_a_follower_uses_the_ranges_of_the_load(commands: Commands) -> None:
    client = Client(commands.node)
    load(commands, *RANGES)
    with following(commands, streams="-") as follower:
        tell(follower, objects(OUTSIDE, IN_RANGE))
        assert LEFT_OUT in follower.said()
        assert client.is_served(IN_RANGE) and not client.is_served(OUTSIDE)
        load(commands, "--external-cidr", "198.51.100.0/24")
        eventually(lambda: client.is_served(OUTSIDE), "the later load's range, without an event")
        assert not client.is_served(IN_RANGE)


def test_the_ranges_of_a_follower_hold_for_later_commands(commands: Commands) -> None:
    load(commands)
    with following(commands, *RANGES, streams="-") as follower:
        tell(follower, objects(OUTSIDE))
        assert LEFT_OUT in follower.said()
    assert LEFT_OUT in load(commands, "--services", str(written(commands, OUTSIDE)))


def test_a_follower_uses_the_ranges_of_the_services_command(commands: Commands) -> None:
    """`node services` runs beside it. Without an event the follower's Services are in force again."""
    client = Client(commands.node)
    load(commands, *RANGES)
    with following(commands, streams="-") as follower:
        tell(follower, objects(OUTSIDE, IN_RANGE))
        assert client.is_served(IN_RANGE) and not client.is_served(OUTSIDE)
        words = ["node", "services", str(written(commands)), "--bpffs", str(commands.node.bpffs)]
        assert policyc([*words, "--external-cidr", "198.51.100.0/24"]) == 0
        eventually(lambda: client.is_served(OUTSIDE), "the range of the other command")
        assert not client.is_served(IN_RANGE)


@pytest.mark.parametrize("step", ["write", "set_left_out"])
def test_services_whose_ranges_cannot_be_recorded_change_nothing(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    client = Client(commands.node)
    load(commands, *RANGES, "--services", str(written(commands, IN_RANGE)))
    done = getattr(StateDir, step)

    def fails_once(*given: object) -> None:
        full.setattr(StateDir, step, done)
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as full:
        full.setattr(StateDir, step, fails_once)
        with pytest.raises(OSError, match="no space left"):
            update_services(
                objects(OUTSIDE),
                bpffs=commands.node.bpffs,
                external=(ipaddress.ip_network("198.51.100.0/24"),),
            )
    assert client.is_served(IN_RANGE) and not client.is_served(OUTSIDE)
    assert ranges(commands) == ["203.0.113.0/24", "2001:db8:113::/48"]


def test_a_load_reports_that_new_ranges_do_not_change_loaded_services(
    commands: Commands,
) -> None:
    said = "the loaded Services stay unchanged"
    given = "--services", str(written(commands, OUTSIDE))
    assert said not in load(commands, *given)
    assert said in load(commands, *RANGES)
    assert said not in load(commands, *RANGES)
    assert said not in load(commands, "--external-cidr", "", *given)


def test_a_load_reports_that_the_ranges_are_lost(commands: Commands) -> None:
    load(commands, *RANGES)
    for each in commands.records():
        each.unlink()
    assert "--external-cidr" in load(commands)


@pytest.mark.parametrize("family", [4, 6])
def test_a_follower_notices_a_socket_that_opens_and_closes(
    commands: Commands, wire: ServiceWire, family: int
) -> None:
    """The socket is at the node's own address. The watch sends no event."""
    client = Client(commands.node)
    commands.node.node_addresses = (NODE.ip4, NODE.ip6)
    load(commands)
    with following(commands, streams="-") as follower:
        tell(follower, objects(NODE))
        assert client.is_served(NODE, family), "the test is not blind"
        server = wire.server(None, family, socket.SOCK_STREAM, PORT)
        eventually(lambda: not client.is_served(NODE, family), "the node's own socket has the port")
        assert "is bound by a socket of the node" in follower.said()
        server.close()
        eventually(lambda: client.is_served(NODE, family), "the Service has it again")


def test_a_follower_notices_an_address_added_to_the_node(
    commands: Commands, wire: ServiceWire
) -> None:
    client = Client(commands.node)
    load(commands)
    server = socket.create_server(("0.0.0.0", PORT))
    with server, following(commands, streams="-") as follower:
        tell(follower, objects(OUTSIDE))
        assert client.is_served(OUTSIDE), "the test is not blind"
        ip("addr", "add", f"{OUTSIDE.ip4}/32", "dev", "lo")
        eventually(lambda: not client.is_served(OUTSIDE), "it is the node's now")
        ip("addr", "del", f"{OUTSIDE.ip4}/32", "dev", "lo")
        eventually(lambda: client.is_served(OUTSIDE), "it is the node's no more")
