# SPDX-License-Identifier: Apache-2.0
"""Rendered sides of a comparison: kustomizations and charts, in the work tree or in a commit."""

from policyc.compiler.frontend.named_sources import (
    is_rendered,
    rendered_source,
    tool_and_place,
)
from policyc.compiler.frontend.read_options import ReadOptions
from policyc.compiler.frontend.yaml.sources import GIT_SCHEME, RenderedSource


def rendered_side(argument: str, other: str, options: ReadOptions) -> RenderedSource | None:
    """The kustomization or chart that a side names; None if it names another source.

    A commit without PATH is rendered as the other side is, at the path of the other side.
    """
    tool, place = tool_and_place(argument)
    other_tool, beside = tool_and_place(other)
    chosen = tool or other_tool
    if chosen is None or not _is_bare(place):
        return rendered_source(argument, options)
    name = f"{chosen.value}:{place}"
    if other_tool is not chosen or _is_bare(beside):
        return rendered_source(name, options)
    if beside.startswith(GIT_SCHEME):
        _, _, path = beside.removeprefix(GIT_SCHEME).partition(":")
        return rendered_source(f"{name}:{path}", options)
    return rendered_source(name, options, beside)


def takes_path_of_rendered(argument: str, other: str) -> bool:
    """Whether `argument` is a commit without PATH that is rendered at the path of `other`."""
    tool, place = tool_and_place(argument)
    other_tool, beside = tool_and_place(other)
    is_alike = tool in (None, other_tool) and is_rendered(other)
    return is_alike and _is_bare(place) and not _is_bare(beside)


def _is_bare(place: str) -> bool:
    """Whether a place is a commit without PATH."""
    return place.startswith(GIT_SCHEME) and ":" not in place.removeprefix(GIT_SCHEME)
