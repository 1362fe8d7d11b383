# SPDX-License-Identifier: Apache-2.0
"""Loads that deny devices without an endpoint."""

import json

from tests.kernel.support.new_pod import PATTERN
from tests.kernel.support.node_commands import Commands
from tests.kernel.support.node_under_test import NodeUnderTest
from tests.kernel.support.table_policy import (
    ANY,
    TablePolicy,
)

DENY = "--deny-devices", PATTERN


def policy(node: NodeUnderTest) -> TablePolicy:
    return TablePolicy(pods=("a", "b", "c", "new")).allow("a", "b", ANY).allow("new", "a", ANY)


def load(commands: Commands, *options: str) -> str:
    code, said = commands.load(policy(commands.node), *options)
    assert code == 0, said
    return said


def denied(commands: Commands) -> list[str]:
    """As status names them; nothing else is unprotected."""
    commands.missing()  # compares with the schema
    found = json.loads(commands.status())
    assert found["unprotected"] == []
    return sorted(found["denied_devices"])
