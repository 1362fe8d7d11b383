# SPDX-License-Identifier: Apache-2.0
"""The imports of load and status: pyroute2 took half of the time of a small load."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from policyc.runtime.attach.program_slot import FIRST
from tests.kernel.support.bundles import (
    compiled,
    policy_for_web,
)
from tests.kernel.support.node_under_test import (
    NodeUnderTest,
    ip,
)
from tests.kernel.support.wire import Wire

pytestmark = pytest.mark.kernel
HEAVY = re.compile(
    r"(pyroute2|rich|yaml|jsonschema|scapy|z3|bitwuzla|numpy|cryptography|asyncio|antlr4|email)(\..*)?"
    r"|policyc\.(verifier|backends|grammar)\b.*|policyc\.compiler\.(driver|frontend)\b.*"
    # What makes text printable imports nothing but `json` and `re`.
    r"|policyc\.ir\.(?!printable$).*"
)


def _heavy_modules(arguments: list[str]) -> list[str]:
    """Those that a new interpreter has loaded after a command."""
    code = (
        "import json, sys\n"
        "from policyc.compiler.cli.main import run\n"
        f"code = run({arguments!r})\n"
        "print(json.dumps([code, sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    return [name for name in modules if HEAVY.fullmatch(name)]


def test_load_and_status_import_no_slow_module(node: NodeUnderTest, tmp_path: Path) -> None:
    """Pods are in namespaces of their own, so they use the fast path."""
    node.node_addresses = ()
    with ExitStack() as owned:
        Wire(node, owned)
        _loads_without_slow_modules(node, tmp_path)


def _loads_without_slow_modules(node: NodeUnderTest, tmp_path: Path) -> None:
    bundle = compiled(tmp_path, policy_for_web("podSelector: {}"))
    bpffs = ["--bpffs", str(node.bpffs)]
    load = ["node", "load", str(bundle), "--endpoints", str(node.endpoints()), *bpffs]
    try:
        assert _heavy_modules(load) == []
        assert FIRST.program(node.pins), "it has looked for programs of other software"
        assert _heavy_modules(load) == [], "a later load"
        ip("link", "del", "pcb")
        assert _heavy_modules([*load, "--missing-devices", "skip"]) == []
        assert _heavy_modules(["node", "status", *bpffs, "--format", "json"]) == []
    finally:
        assert _heavy_modules(["node", "unload", *bpffs]) == []


def test_the_pattern_matches_slow_modules() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import json, sys, pyroute2; print(json.dumps(list(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert any(HEAVY.fullmatch(name) for name in json.loads(done.stdout))
