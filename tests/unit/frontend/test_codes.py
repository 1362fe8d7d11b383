# SPDX-License-Identifier: Apache-2.0
"""Codes are stable names; docs/diagnostics.md has every one of them, and no other."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from policyc import ir
from policyc.compiler import cli, driver, frontend
from policyc.ir.diagnostics import Code

PAGE = Path(__file__).parents[3] / "docs/diagnostics.md"
MODULES = [
    import_module(found.name)
    for package in (frontend, driver, cli, ir)
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if re.search(r"\.codes(_\w+)?$", found.name)
]
DECLARED = [
    value for module in MODULES for value in vars(module).values() if isinstance(value, Code)
]


def test_no_code_is_used_twice() -> None:
    names = [code.name for code in DECLARED]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"PC\d{4}", name) for name in names)


def test_the_page_has_every_code_with_its_severity_cause_and_fix() -> None:
    entries = re.findall(
        r"^- \*\*(PC\d{4})\*\* \((\w+)\): (?:.+\n)+?  \*Fix:\* .+$", PAGE.read_text(), re.M
    )
    listed = dict(entries)
    assert len(listed) == len(entries)
    assert listed == {code.name: code.severity.value for code in DECLARED}
