# SPDX-License-Identifier: Apache-2.0
"""`policyc schema`: print a JSON schema, or the names of all schemas. Glue only."""

from difflib import get_close_matches
from importlib import resources

import click

from policyc.compiler.cli.help import command

_ENDING = ".schema.json"


@command(
    "schema",
    short_help="print a JSON schema",
    examples=(
        "policyc schema",
        "policyc schema config",
    ),
)
@click.argument("name", required=False)
def schema(name: str | None) -> int:
    """Print a JSON schema of a policyc kind (for editors) or of a command's JSON output.

    Without NAME, list the names.
    """
    folder = resources.files("policyc.schemas")
    names = sorted(
        entry.name.removesuffix(_ENDING)
        for entry in folder.iterdir()
        if entry.name.endswith(_ENDING)
    )
    if name is None:
        click.echo("\n".join(names))
        return 0
    if name not in names:
        near = "".join(f"; did you mean `{n}`?" for n in get_close_matches(name, names, n=1))
        raise click.UsageError(f"unknown schema {name}{near}")
    click.echo((folder / f"{name}{_ENDING}").read_text("utf-8"), nl=False)
    return 0
