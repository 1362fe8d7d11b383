# SPDX-License-Identifier: Apache-2.0
"""`policyc init`: write .policyc.yaml after a look at the repository."""

import os
from collections.abc import Iterable
from pathlib import Path

import click

from policyc.backends.report.text import print_findings
from policyc.compiler.cli.help import command
from policyc.compiler.cli.output_file import write_whole
from policyc.compiler.driver.settings.find import CONFIG_FILE
from policyc.compiler.driver.settings.new_file import text_of
from policyc.compiler.driver.settings.survey import Survey, look_at, places_of
from policyc.ir.counts import counted
from policyc.ir.printable import printable_line

_MOST = 10
"""Names in one line of the summary."""


@command(
    "init",
    short_help="write .policyc.yaml after a look at the repository",
    examples=(
        "policyc init",
        "policyc init --print",
    ),
)
@click.argument("folder", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--force", is_flag=True, help=f"Replace an existing {CONFIG_FILE}.")
@click.option("--print", "is_printed", is_flag=True, help="Print the file. Write nothing.")
def init(folder: str, force: bool, is_printed: bool) -> int:
    """Look at the files of FOLDER and write its .policyc.yaml.

    The file names the directories with policies. The kinds that policyc does not know are in it as
    comments: each is an error until you allow it.
    """
    path = Path(folder) / CONFIG_FILE
    if os.path.lexists(path) and not (force or is_printed):
        raise click.UsageError(f"{path} exists: --force replaces it, --print shows the new file")
    survey = look_at(folder)
    text = text_of(survey)
    if is_printed:
        click.echo(text, nl=False)
        return 0
    write_whole(path, text)
    click.echo(f"wrote {printable_line(str(path))}")
    for line in _summary(survey):
        click.echo(printable_line(line))
    print_findings(survey.unread)
    return 0


def _summary(survey: Survey) -> Iterable[str]:
    """What was found, and what is left to decide."""
    files = survey.policy_files
    if files:
        places = ", ".join(places_of(files))
        found = counted(len(survey.policies), "policy", "policies")
        yield f"policies: {found} in {counted(len(files), 'file')}, in {places}"
    else:
        yield "policies: none found"
    for (kind, namespace, name), places_found in list(survey.given_twice.items())[:_MOST]:
        title = f"{namespace}/{name}" if namespace else name
        yield f"given twice: {kind} {title} in {', '.join(places_found[:3])}: exclude all but one"
    if survey.intents:
        yield f"intents: {counted(len(set(survey.intents)), 'file')}"
    if survey.cluster:
        yield f"objects of a cluster: {counted(len(survey.cluster), 'file')}; see `cluster` in the file"
    if survey.unknown:
        kinds = _some(sorted(survey.unknown))
        yield f"unknown kinds: {kinds}. Allow those that restrict no traffic; see the file"
    if survey.not_built:
        built = counted(len(survey.not_built), "kustomization")
        yield f"{built} that policyc does not build, such as {survey.not_built[0]}"
    if survey.templates:
        yield f"{counted(len(survey.templates), 'template')} that policyc does not render"
    if survey.unread:
        yield f"{counted(len(survey.unread), 'file')} with errors:"


def _some(names: list[str]) -> str:
    rest = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {rest} more" if rest > 0 else "")
