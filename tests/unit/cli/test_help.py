# SPDX-License-Identifier: Apache-2.0
"""`--help`: options stand under headings, and the examples are commands that parse."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from policyc.compiler.cli.help import SECTIONS, Command
from policyc.compiler.cli.main import COMMANDS, cli


def commands() -> Iterator[tuple[str, Command]]:
    """Every command that does something, by its command line."""
    assert isinstance(cli, click.Group)
    context = click.Context(cli)
    for name in COMMANDS:
        found = cli.get_command(context, name)
        if isinstance(found, click.Group):
            below = {f"{name} {sub}": each for sub, each in found.commands.items()}
        else:
            below = {name: found}
        for typed, command in below.items():
            assert isinstance(command, Command), f"{typed} has no examples"
            yield typed, command


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_a_command_has_examples_that_parse(name: str) -> None:
    command = ALL[name]
    lines = re.sub(r"\\\n *|<\(.*?\)", "", "\n".join(command.examples)).splitlines()
    own = [each for each in lines if each.startswith("policyc")]
    assert own
    for line in own:
        words = shlex.split(line)
        typed = ["policyc", *name.split()]
        assert words[: len(typed)] == typed
        command.make_context(name, words[len(typed) :], resilient_parsing=False)


@pytest.mark.parametrize("name", ALL)
def test_help_has_every_option_once_and_then_the_examples(name: str) -> None:
    said = CliRunner().invoke(cli, [*name.split(), "--help"]).output
    for option in ALL[name].params:
        if isinstance(option, click.Option) and not option.hidden:
            shown = re.findall(rf"^  (?:-\w, )?{re.escape(option.opts[-1])}\b(?![-\w])", said, re.M)
            assert len(shown) == 1, option.opts
    assert said.index("Examples:") > max(map(said.rfind, (f"\n{each}:" for each in SECTIONS)))
