# SPDX-License-Identifier: Apache-2.0
"""Unusable records of a load: every command still works, or reports what would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policyc.runtime.attach import clsact
from policyc.runtime.attach.attach import (
    BY_ROLE,
    Mode,
)
from policyc.runtime.errors import HostError
from tests.kernel.support.node_under_test import (
    A,
    B,
    NodeUnderTest,
)
from tests.kernel.support.packets import (
    SYN,
    frame,
    tcp,
)
from tests.kernel.support.table_policy import tcp_port
from tests.slices import at_length

pytestmark = [pytest.mark.kernel, *at_length(pytest.mark.fresh)]
Damage = Callable[[Path], object]


def _edited(edit: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(path: Path) -> None:
        record = json.loads(path.read_text())
        edit(record)
        path.write_text(json.dumps(record))

    return damage


DAMAGES: dict[str, Damage] = {
    "cut off": lambda path: path.write_text('{"sch'),
    "not text": lambda path: path.write_bytes(b"\xff\xfe"),
    "not an object": lambda path: path.write_text("[]"),
    "of another release": _edited(lambda record: record.update(schema="policyc.dev/node-state/v0")),
    "with an unknown field": _edited(lambda record: record.update(extra=1)),
    "without a field": _edited(lambda record: record.pop("endpoints")),
    "with an endpoint of another kind": _edited(lambda record: record.update(endpoints=[1])),
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest) -> Damage:
    return DAMAGES[request.param]


def _record(node: NodeUnderTest) -> Path:
    return next(node.state_root.rglob("generation-1.json"))


def test_status_reports_an_unusable_record(node: NodeUnderTest, damage: Damage) -> None:
    node.load(node.policy())
    damage(_record(node))
    with pytest.raises(HostError, match="cannot be used") as caught:
        node.status()
    assert "load again, or unload" in caught.value.hint


def test_load_works_without_the_record(node: NodeUnderTest, damage: Damage) -> None:
    node.load(node.policy().allow("a", "b", tcp_port(80)))
    damage(_record(node))
    node.load(node.policy().allow("a", "b", tcp_port(81)))
    assert "cannot be used" in node.warnings[0]
    assert node.sent_by("a", frame(A, B, tcp(1000, 81, SYN)))
    assert not node.sent_by("a", frame(A, B, tcp(1000, 80, SYN)))
    found = node.status()
    assert found is not None and found.unprotected == ()
    assert node.unload()


@pytest.mark.parametrize("mode", ["tcx", pytest.param("clsact", marks=pytest.mark.slow)])
def test_unload_works_without_the_record(node: NodeUnderTest, damage: Damage, mode: Mode) -> None:
    node.load(node.policy(), mode=mode)
    damage(_record(node))
    assert node.unload()
    assert "cannot be used" in node.warnings[0]
    assert not node.bpffs.exists()
    assert not list(node.state_root.rglob("*"))
    for hook in BY_ROLE["pod"]:
        assert clsact.find(node.ifindex["pca"], hook.direction) is None
