# SPDX-License-Identifier: Apache-2.0
"""Rendering of results in formats. A format is a module of `formats/`; no other module knows it.

Such a module has `FORMAT`, the format's name, and `RENDERERS`, from each type of result that it shows to
a function. Several modules may contribute to one format.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from policyc.backends.report import formats
from policyc.backends.report.options import PLAIN, ReportOptions
from policyc.backends.report.renderer import Renderer
from policyc.ir.errors import InternalError
from policyc.ir.printable import without_commands

_FIRST = ("text", "json")
"""The formats that come first in lists of formats."""


def render(result: object, form: str, options: ReportOptions = PLAIN) -> str:
    """The result as a whole document, its last line ended; KeyError where `has_format` is false."""
    document = _renderers()[form, type(result)](result, options)
    if form not in _writing_commands():
        document = without_commands(document)
    return document if document.endswith("\n") or not document else document + "\n"


def has_format(result_type: type, form: str) -> bool:
    """Whether a type of result can be shown in a format."""
    return (form, result_type) in _renderers()


def formats_of(result_type: type) -> list[str]:
    """The formats in which a type of result can be shown, `text` first."""
    names = {form for form, shown in _renderers() if shown is result_type}
    return sorted(names, key=lambda form: (form not in _FIRST, form == "json", form))


@cache
def _writing_commands() -> frozenset[str]:
    """The formats whose documents are commands of a log, with `WRITES_COMMANDS` in their module."""
    modules = map(importlib.import_module, _names())
    return frozenset(each.FORMAT for each in modules if getattr(each, "WRITES_COMMANDS", False))


def _names() -> list[str]:
    return [info.name for info in pkgutil.iter_modules(formats.__path__, f"{formats.__name__}.")]


@cache
def _renderers() -> Mapping[tuple[str, type], Renderer]:
    found: dict[tuple[str, type], Renderer] = {}
    for name in _names():
        module = importlib.import_module(name)
        for shown, renderer in module.RENDERERS.items():
            key = (module.FORMAT, shown)
            if key in found:
                raise InternalError(f"{name} shows {shown.__name__} a second time")
            found[key] = renderer
    return found
