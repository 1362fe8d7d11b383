# SPDX-License-Identifier: Apache-2.0
"""Notes of a command on standard error besides findings: one printable line at a time."""

import click

from policyc.ir.printable import printable_line


def say(words: str) -> None:
    """Print a line after `policyc: `; names in it come from the input and are made printable."""
    click.echo(printable_line(f"policyc: {words}"), err=True)
