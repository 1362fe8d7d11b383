# SPDX-License-Identifier: Apache-2.0
"""An invalid object among Services is left out, named and counted. The others are in force."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.bundle.json_value import JsonValue
from policyc.runtime.errors import InputError
from policyc.runtime.services.all_objects import serve
from policyc.runtime.services.services import OwnNode
from policyc.runtime.services.watched_objects import WatchedServices
from tests.kernel.support.denied_devices import (
    load,
    policy,
)
from tests.kernel.support.node_commands import (
    SCHEMA,
    Commands,
    commands,
)
from tests.kernel.support.node_under_test import (
    UPLINK,
    A,
    B,
)
from tests.kernel.support.service_yaml import (
    OTHER_VIP,
    service,
    slices,
)

pytestmark = pytest.mark.kernel
__all__ = ["commands"]
MASQUERADE = "--masquerade", "--masquerade-ports", "30000-31000", "--uplink", UPLINK


def wrong(what: str) -> dict[str, Any]:
    """A second Service, which has an address of its own."""
    raw: dict[str, Any] = service("bad", OTHER_VIP).raw
    spec, metadata = raw["spec"], raw["metadata"]
    if what == "field":
        spec["ports"][0]["portt"] = 3
    elif what == "value":
        spec["internalTrafficPolicy"] = "Nowhere"
    elif what == "annotation":
        metadata["annotations"] = {"policyc.dev/balance": "dice"}
    elif what == "SCTP":
        spec["ports"][0]["protocol"] = "SCTP"
    elif what == "node port":
        spec |= {"type": "NodePort"}
        spec["ports"][0]["nodePort"] = 30080
    return raw


WRONG = {
    "field": "unknown field",
    "value": "Nowhere",
    "annotation": "policyc.dev/balance",
    "SCTP": "SCTP",
    "node port": "30080",
}


def given(commands: Commands, what: str) -> Path:
    slice_ = [each.raw for each in slices([A], "bad", "SCTP" if what == "SCTP" else "TCP")]
    good = [service().raw, *(each.raw for each in slices([B]))]
    path = commands.node.folder / "services.json"
    items = [wrong(what), *slice_, *good]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def counted(commands: Commands) -> dict[str, int]:
    status = json.loads(commands.status())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(status)
    found: dict[str, int] = status["services_left_out"]
    return found


def n_frontends(commands: Commands) -> int:
    found = {each["name"]: each["used"] for each in json.loads(commands.status())["maps"]}
    return int(found["pc_frontends"])


@pytest.mark.parametrize("command", ["load", "services"])
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_object_is_left_out(
    commands: Commands, capfd: pytest.CaptureFixture[str], what: str, command: str
) -> None:
    file = str(given(commands, what))
    commands.node.node_addresses = ("10.0.0.1",)

    def put(*options: str) -> tuple[int, str]:
        if command == "load":
            words = *MASQUERADE, "--services", file, *options
            return commands.load(policy(commands.node), *words)
        where = ["--bpffs", str(commands.node.bpffs)]
        capfd.readouterr()
        code = policyc(["node", "services", file, *where, *options])
        return code, capfd.readouterr().err

    load(commands, *MASQUERADE)
    code, said = put("--strict-services")
    assert code == 2 and WRONG[what] in said
    assert n_frontends(commands) == 0
    code, said = put()
    assert code == 0, said
    assert f"warning: left out: {file}: $.items[0]" in said and WRONG[what] in said
    assert counted(commands) == {"wrong_objects": 1}
    assert n_frontends(commands) == 2
    assert "Services left out: 1 object is invalid" in commands.status("text")


@pytest.mark.parametrize("text", ["{", "[1]", '{"kind": "List"}', '{"a": 1}'])
def test_a_file_without_a_list_of_objects_is_refused(commands: Commands, text: str) -> None:
    path = commands.node.folder / "services.json"
    path.write_text(text)
    assert commands.load(policy(commands.node), "--services", str(path))[0] == 2


def test_a_watch_keeps_the_valid_objects_of_a_list(tmp_path: Path) -> None:
    said: list[str] = []
    world = WatchedServices(OwnNode("node-1"), said.append)
    bad = wrong("value")
    items = [bad, wrong("field") | {"metadata": {"name": "worse"}}, service().raw]
    listed = JsonValue({"apiVersion": "v1", "kind": "List", "items": items}, tmp_path)
    with pytest.raises(Exception, match="portt"):
        world.take(listed)
    assert len(said) == 1 and "Nowhere" in said[0]
    assert len(world.changes()) == 2
    assert world.left_out == {"wrong_objects": 2}
    world.take(JsonValue({"type": "MODIFIED", "object": service("bad", OTHER_VIP).raw}, tmp_path))
    assert world.left_out == {"wrong_objects": 1}
    world.take(JsonValue({"type": "DELETED", "object": items[1]}, tmp_path))
    assert world.left_out == {}


def test_a_duplicate_object_is_refused() -> None:
    """The API server has it once. Nothing says which one is meant."""
    with pytest.raises(InputError, match="is also"):
        serve([service(), service()], OwnNode("node-1"))
