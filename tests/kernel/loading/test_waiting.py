# SPDX-License-Identifier: Apache-2.0
"""Concurrent commands: those that change the node wait, and `node status` says so."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime import switch
from policyc.runtime.attach import attach
from policyc.runtime.load import node as runtime
from policyc.runtime.state import DEFAULT_ROOT, StateDir
from tests.kernel.support.killed import forked
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    frame,
    udp,
)
from tests.kernel.support.service_yaml import web
from tests.kernel.support.table_policy import (
    ANY,
    NamePlacer,
    TablePolicy,
)

pytestmark = pytest.mark.kernel
PATIENCE = 30.0  # seconds in which a step has to be reached
SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "node-status-v1.schema.json"


class Held:
    """A command in a child process, which stops before a step until the test lets it continue."""

    def __init__(
        self, command: Callable[[], int], patch: Callable[[Callable[[], None]], None]
    ) -> None:
        at_step, reached = os.pipe()
        go_on, told = os.pipe()

        def stop() -> None:
            os.write(reached, b"x")
            os.read(go_on, 1)

        def run() -> int:
            os.close(told)
            patch(stop)
            return command()

        self.pid = forked(run)
        self._told = told
        for fd in (reached, go_on):
            os.close(fd)
        assert os.read(at_step, 1), "the command ended before the step"
        os.close(at_step)
        self._status: int | None = None

    def go_on(self) -> None:
        os.write(self._told, b"x")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.ended()

    def ended(self) -> int:
        """The child's exit code, once it has ended."""
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
            os.close(self._told)
        return os.waitstatus_to_exitcode(self._status)


def before(module: object, name: str) -> Callable[[Callable[[], None]], None]:
    """Patches a function of a module: its first call calls another one before."""

    def patch(first: Callable[[], None]) -> None:
        real: Callable[..., object] = getattr(module, name)

        def called(*args: object, **kwargs: object) -> object:
            setattr(module, name, real)
            first()
            return real(*args, **kwargs)

        setattr(module, name, called)

    return patch


class Commands:
    def __init__(self, node: NodeUnderTest, capfd: pytest.CaptureFixture[str]) -> None:
        self.node, self._capfd = node, capfd
        self.bpffs = ["--bpffs", str(node.bpffs)]

    def load_command(self, policy: TablePolicy) -> list[str]:
        files = [str(self.node.bundle(policy)), "--endpoints", str(self.node.endpoints())]
        return ["node", "load", *files, *self.bpffs]

    def says(self, *command: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        self._capfd.readouterr()
        code = policyc([*command, *self.bpffs])
        out, err = self._capfd.readouterr()
        return code, out, err

    def status(self) -> dict[str, object]:
        code, out, _ = self.says("node", "status", "--format", "json")
        assert code == 0
        found: dict[str, object] = json.loads(out)
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
        return found

    @contextmanager
    def held_load(self, module: object = attach, name: str = "attach") -> Iterator[Held]:
        """A load that allows all, stopped before it attaches to the first device."""
        command = self.load_command(self.node.policy().allow("a", "b", ANY))
        held = Held(lambda: policyc(command), before(module, name))
        try:
            yield held
        finally:
            if held._status is None:
                held.kill()


@pytest.fixture
def commands(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Commands]:
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    node.node_addresses = ()
    made = Commands(node, capfd)
    yield made
    policyc(["node", "unload", *made.bpffs])


def test_status_reports_a_first_load_in_progress(commands: Commands) -> None:
    with commands.held_load():
        code, out, _ = commands.says("node", "status")
        assert code == 0
        assert out == "a load is in progress\nnothing is loaded\n"
        assert commands.status() == {
            "schema": "policyc.dev/node-status/v1", "loaded": False, "in_progress": "load",
        }  # fmt: skip


def test_status_during_a_later_load_shows_the_policy_in_force(commands: Commands) -> None:
    assert policyc(commands.load_command(commands.node.policy())) == 0
    assert commands.status()["in_progress"] == ""
    with commands.held_load(switch, "store") as held:
        code, out, _ = commands.says("node", "status")
        assert code == 0
        assert out.startswith("a load is in progress\nnode node-1: epoch 1 ")
        found = commands.status()
        assert (found["epoch"], found["in_progress"]) == (1, "load")
        assert not commands.node.sent_by("a", frame(A, B, udp(1, 2)))
        held.go_on()
        assert held.ended() == 0
    assert commands.status()["epoch"] == 2


def test_status_reports_a_killed_first_load_as_partly_loaded(commands: Commands) -> None:
    with commands.held_load() as held:
        held.kill()
        code, _, err = commands.says("node", "status")
        assert code == 3
        assert "this node is partly loaded: a command was interrupted" in err
        assert "load or unload again" in err


def _waited(command: Callable[[], tuple[int, str, str]], held: Held) -> tuple[int, str, str]:
    """Runs a command. The command that it waits for continues a moment later."""
    later = threading.Timer(0.3, held.go_on)
    later.start()
    try:
        return command()
    finally:
        later.join()
        assert held.ended() == 0


@pytest.mark.parametrize("which", ["load", "unload", "services"])
def test_a_command_waits_for_a_load(commands: Commands, tmp_path: Path, which: str) -> None:
    services = tmp_path / "services.json"
    items = [each.raw for each in web(B)]
    services.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    second = {
        "load": commands.load_command(commands.node.policy()),
        "unload": ["node", "unload"],
        "services": ["node", "services", str(services)],
    }[which]
    done = {"load": "replaced: epoch 2", "unload": "unloaded", "services": "loaded 1 Service"}
    with commands.held_load() as held:
        code, _, err = _waited(lambda: commands.says(*second), held)
        assert code == 0, err
        assert "note: a load is in progress; waiting up to 10 s for it" in err
        assert done[which] in err


def test_a_wait_is_bounded(commands: Commands) -> None:
    second = commands.load_command(commands.node.policy())
    with commands.held_load():
        began = time.monotonic()
        code, _, err = commands.says(*second, "--wait", "1")
        assert code == 3 and 1 <= time.monotonic() - began < PATIENCE
        assert "another `policyc node` command is changing this node: a load is in progress" in err
        assert "--wait" in err
        code, _, err = commands.says(*second, "--wait", "0")
        assert code == 3 and "waiting" not in err
        assert commands.says(*second, "--wait", "-1")[0] == 2
        assert commands.says("node", "unload", "--wait", "0")[0] == 3


def test_a_status_makes_no_load_fail(commands: Commands) -> None:
    """Status takes the lock briefly. A load without a wait comes in between."""
    command = [*commands.load_command(commands.node.policy()), "--wait", "0"]
    state = StateDir(commands.node.bpffs, DEFAULT_ROOT)
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            state.at_work()

    looking = [threading.Thread(target=look) for _ in range(3)]
    for each in looking:
        each.start()
    try:
        codes = [commands.says(*command)[0] for _ in range(5)]
    finally:
        stop.set()
        for each in looking:
            each.join()
    assert codes == [0] * 5


@pytest.mark.parametrize("again", ["load", "unload"])
def test_status_while_generations_change_is_never_an_error(commands: Commands, again: str) -> None:
    """Records and pins of a generation disappear while status reads them."""
    load = commands.load_command(commands.node.policy())
    assert policyc(load) == 0

    def generations() -> int:
        for _ in range(6):
            if again == "unload":
                policyc(["node", "unload", *commands.bpffs])
            if policyc(load) != 0:
                return 1
        return 0

    child, codes = forked(generations), []
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        codes.append(commands.says("node", "status", "--format", "json")[0])
    assert set(codes) == {0} and len(codes) > 3
