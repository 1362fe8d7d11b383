# SPDX-License-Identifier: Apache-2.0
"""The listing in graphviz' DOT language: groups as nodes, connections as edges; deterministic text."""

from policyc.ir.printable import printable
from policyc.ir.results.listing import EndGroup, ListResult

_SHAPES = {"pods": "box", "nodes": "box3d", "outside": "ellipse"}
_MEMBERS = 5


def dot_of(result: ListResult) -> str:
    """The graph. Names are quoted, so that no name is read as DOT or HTML."""
    lines = [
        "digraph policyc {",
        "  rankdir=LR;",
        '  node [fontname="sans-serif" fontsize=10];',
        '  edge [fontname="sans-serif" fontsize=9];',
    ]
    used = {at for each in result.connections for at in (each.src, each.dst)}
    for group in result.groups:
        if group.number in used or group.is_focus:
            shape = _SHAPES[group.kind]
            style = ' style="bold"' if group.is_focus else ""
            lines.append(
                f"  g{group.number} [shape={shape}{style} label={quoted(*_label(group))}];"
            )
    for each in result.connections:
        only = f" (IPv{each.families[0]})" if len(each.families) == 1 else ""
        lines.append(f"  g{each.src} -> g{each.dst} [label={quoted(each.services + only)}];")
    return "\n".join([*lines, "}"]) + "\n"


def _label(group: EndGroup) -> list[str]:
    """The name, and some of the members below it if the name does not include them."""
    if group.kind == "outside" or ", ".join(group.members) == group.name:
        return [group.name]
    more = len(group.members) - _MEMBERS
    return [group.name, *group.members[:_MEMBERS], *([f"and {more} more"] if more > 0 else [])]


def quoted(*lines: str) -> str:
    """Lines as a quoted string of DOT, each centred; `dot` also reads HTML's character references."""
    plain = (printable(line).replace("&", "&amp;") for line in lines)
    shown = (line.replace("\\", "\\\\").replace('"', '\\"') for line in plain)
    return '"' + "\\n".join(shown) + '"'
