# SPDX-License-Identifier: Apache-2.0
"""Findings about an edited file alone equal those of the check of all files that are about it.

Kinds that docs/editor.md leaves to the check of all files are not compared: they need several files.
"""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from policyc.compiler.driver.check.codes import POLICY_CHANGES_NOTHING
from policyc.compiler.driver.settings.settings import NO_SETTINGS
from policyc.compiler.editor.folder import Folder
from policyc.compiler.editor.near_check import near_check
from policyc.compiler.editor.reading import read_all
from policyc.compiler.editor.whole_check import whole_check
from policyc.compiler.frontend.yaml.sources import Content
from policyc.compiler.fuzz.strategies.admin import old_admin_policies
from policyc.compiler.fuzz.strategies.kubernetes import network_policies
from policyc.compiler.fuzz.strategies.words import Value
from policyc.ir.diagnostics import Diagnostic
from tests.property.length import examples

OF_SEVERAL_FILES = frozenset({POLICY_CHANGES_NOTHING.name})
"""A policy may change nothing only after others are deleted."""


def joined(parts: tuple[list[Value], list[Value]]) -> list[Value]:
    """The objects of both parts."""
    return parts[0] + parts[1]


with_admin = st.tuples(network_policies(1, 1), old_admin_policies(1)).map(joined)
policies = st.one_of(network_policies(3, 1), with_admin)


def folder_of(objects: list[Value], in_one: bool) -> Folder:
    """One file for each object, or two objects in a file."""
    step = 2 if in_one else 1
    files = {}
    for at in range(0, len(objects), step):
        text = "\n---\n".join(json.dumps(each, indent=1) for each in objects[at : at + step])
        name = f"p{at}.yaml"
        files[name] = Content(name, text.encode(), name, is_found=True)
    return Folder(NO_SETTINGS, files)


def said(found: tuple[Diagnostic, ...], name: str) -> list[Diagnostic]:
    """The findings about a file, in order."""
    mine = [each for each in found if each.span.file == name]
    return sorted(mine, key=lambda each: (each.span, each.code, each.message))


@settings(max_examples=examples(160))
@given(policies, st.booleans())
def test_a_file_has_the_findings_of_the_whole_check(objects: list[Value], in_one: bool) -> None:
    folder = folder_of(objects, in_one)
    whole = whole_check(folder)
    if OF_SEVERAL_FILES & {each.code for each in whole}:
        return
    reading = read_all(folder)
    for name in folder.files:
        if reading.broken or not reading.is_whole:
            assert said(reading.findings.get(name, ()), name) == said(whole, name)
        else:
            assert said(near_check(reading, name).findings, name) == said(whole, name)
