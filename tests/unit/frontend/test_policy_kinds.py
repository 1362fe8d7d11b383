# SPDX-License-Identifier: Apache-2.0
"""Every kind of policy has a reader, and the package every name it says it has."""

import pytest

from policyc.compiler import frontend
from policyc.compiler.frontend.kubernetes.objects import RawObject
from policyc.compiler.frontend.lowered import Reading
from policyc.compiler.frontend.object_kinds import (
    ROLES,
    Role,
)
from policyc.compiler.frontend.policy_kinds import READERS
from policyc.compiler.frontend.yaml.tree import (
    Mapping,
    from_python,
)
from policyc.ir.diagnostics import Report

POLICY_KINDS = sorted(kind for kind, role in ROLES.items() if role is Role.POLICY)


def test_a_kind_has_a_reader_if_it_is_a_policy() -> None:
    assert sorted(READERS) == POLICY_KINDS


@pytest.mark.parametrize("key", POLICY_KINDS, ids="/".join)
def test_each_reader_can_be_imported(key: tuple[str, str]) -> None:
    version, kind = key
    node = from_python({"apiVersion": version, "kind": kind, "other": 1}, "<test>")
    assert isinstance(node, Mapping)
    report = Report()
    READERS[key](RawObject(version, kind, Role.POLICY, node), Reading(report))
    assert any("other" in finding.message for finding in report.findings)


@pytest.mark.parametrize("name", frontend.__all__)
def test_each_public_name_exists(name: str) -> None:
    assert getattr(frontend, name) is not None


def test_an_unknown_name_of_frontend_is_an_attribute_error() -> None:
    other = "no_such_name"
    with pytest.raises(AttributeError, match=other):
        getattr(frontend, other)
