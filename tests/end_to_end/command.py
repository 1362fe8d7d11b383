# SPDX-License-Identifier: Apache-2.0
"""Run the command in this process, with the output and exit code of a separate process.

A process of its own compiles the hooks anew, four seconds that say nothing about most tests.
"""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

import click

from policyc.compiler.cli.main import cli, run


def policyc_here(
    *arguments: str, cwd: Path = Path(), stdin: str = "", program: click.Command = cli
) -> subprocess.CompletedProcess[str]:
    """Run `policyc` or another program with these arguments, in this folder, with this text to read."""
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    written = (io.BytesIO(), io.BytesIO())
    out, err = (io.TextIOWrapper(each, "utf-8", write_through=True) for each in written)
    with (
        contextlib.chdir(cwd),
        mock.patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run(list(arguments), program)
    return subprocess.CompletedProcess(
        arguments, code, *(each.getvalue().decode() for each in written)
    )
