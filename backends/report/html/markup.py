# SPDX-License-Identifier: Apache-2.0
"""Markup from text that is not trusted: every name, file and line is escaped here."""

from collections.abc import Iterable
from html import escape

from policyc.ir.printable import printable


class Markup(str):
    """HTML. Any other string is text."""

    __slots__ = ()


def text(value: str) -> Markup:
    """Text on one line: acting and invisible characters are escapes, and so is markup."""
    return Markup(escape(printable(value)))


def tag(name: str, *children: str, **attributes: str | int | bool) -> Markup:
    """An element. A child that is no Markup is text; `class_` is the attribute `class`, `_` is `-`."""
    inner = "".join(each if isinstance(each, Markup) else text(each) for each in children)
    return Markup(f"<{name}{_attributes(attributes)}>{inner}</{name}>")


def _attributes(given: dict[str, str | int | bool]) -> str:
    shown = ""
    for name, value in given.items():
        if value is False:
            continue
        named = name.rstrip("_").replace("_", "-")
        shown += f" {named}" if value is True else f' {named}="{text(str(value))}"'
    return shown


def joined(parts: Iterable[str]) -> Markup:
    """Elements and texts, one after the other."""
    return Markup("".join(each if isinstance(each, Markup) else text(each) for each in parts))


def table(
    caption: str, heads: Iterable[str], rows: Iterable[Markup], **attributes: str | int | bool
) -> Markup:
    """A table with a caption, in a box that scrolls sideways and is reached by the keyboard."""
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    body = tag("tbody", *rows)
    whole = tag("table", tag("caption", caption), head, body, **attributes)
    return tag("div", whole, class_="wide", tabindex=0, role="group", aria_label=caption)


def cells(*contents: str) -> Markup:
    """A row; its first cell is the head of the row."""
    first, *others = contents
    return joined((tag("th", first, scope="row"), *(tag("td", each) for each in others)))
