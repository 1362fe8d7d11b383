# SPDX-License-Identifier: Apache-2.0
"""`policyc node` commands on a node whose devices come and go."""

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from policyc.compiler.cli.main import run as policyc
from policyc.runtime.load import node as runtime
from policyc.runtime.state import DEFAULT_ROOT, StateDir
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.table_policy import (
    NamePlacer,
    TablePolicy,
)

SCHEMA = Path(__file__).parents[3] / "docs" / "schemas" / "node-status-v1.schema.json"


class Commands:
    """The commands, on a node whose classifier is the tests' own."""

    def __init__(self, node: NodeUnderTest, capfd: pytest.CaptureFixture[str]) -> None:
        self.node, self._capfd = node, capfd
        self._bpffs = ["--bpffs", str(node.bpffs)]

    def load(self, policy: TablePolicy, *options: str) -> tuple[int, str]:
        """Exit code, and what standard error says."""
        return self.run(str(self.node.bundle(policy)), self.node.endpoints(), *options)

    def run(self, bundle: str, endpoints: Path, *options: str) -> tuple[int, str]:
        """The same, with these files."""
        files = [bundle, "--endpoints", str(endpoints)]
        self._capfd.readouterr()
        code = policyc(["node", "load", *files, *self._bpffs, *options])
        return code, self._capfd.readouterr().err

    def records(self) -> list[Path]:
        """The records of the generation in force."""
        return list(StateDir(self.node.bpffs).path.glob("generation-*"))

    def status(self, form: str = "json") -> str:
        self._capfd.readouterr()
        assert policyc(["node", "status", *self._bpffs, "--format", form]) == 0
        return self._capfd.readouterr().out

    def missing(self) -> list[str]:
        """As status names them."""
        found = json.loads(self.status())
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
        named: list[str] = found["missing_devices"]
        return named

    def unload(self) -> None:
        assert policyc(["node", "unload", *self._bpffs]) == 0


@pytest.fixture
def commands(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Commands]:
    monkeypatch.setattr(runtime, "_tables", NamePlacer)
    node.node_addresses, node.state_root = (), DEFAULT_ROOT
    made = Commands(node, capfd)
    yield made
    made.unload()
