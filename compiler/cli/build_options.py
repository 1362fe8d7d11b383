# SPDX-License-Identifier: Apache-2.0
"""The options of commands that make or prove bundles: the node, and the cache of earlier runs."""

from pathlib import Path
from typing import Any

import click

from policyc.verifier.smt.solver_choice import Choice


class _NamedFolder(click.Path):
    """The directory of --cache.

    An empty name, as from an unset variable, would mean the current directory.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            raise click.UsageError("--cache needs the name of a directory")
        return super().convert(value, param, ctx)


def _named(name: str | None) -> str:
    """The name given to --node, or empty. An empty name on the command line would mean every node."""
    if name == "":
        raise click.UsageError("--node needs the name of a node")
    return name or ""


node_option = click.option(
    "--node",
    callback=lambda _context, _option, name: _named(name),
    metavar="NAME",
    help="Compile only for pods that run, or can be scheduled, on this node. [default: all nodes]",
)
cache_option = click.option(
    "--cache",
    type=_NamedFolder(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Reuse proofs and objects that earlier runs stored in DIR. Several users may share it. "
    "[default: no cache]",
)
solver_option = click.option(
    "--solver",
    type=click.Choice([choice.value for choice in Choice]),
    default=Choice.BITWUZLA.value,
    show_default=True,
    help="Prove the bytecode with this solver. With `both`, the two must agree.",
)
