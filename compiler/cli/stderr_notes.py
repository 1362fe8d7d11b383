# SPDX-License-Identifier: Apache-2.0
"""Notes of a command on standard error besides findings: one printable line at a time."""

import click

from policyc.ir.printable import printable_line


def say(words: str) -> None:
    """A line after `policyc: `; names in it may be whatever the input has."""
    click.echo(printable_line(f"policyc: {words}"), err=True)
