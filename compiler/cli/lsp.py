# SPDX-License-Identifier: Apache-2.0
"""`policyc lsp`: the language server over standard input and output. Glue only."""

import gc
import logging
import os
import sys
from importlib.metadata import version

import click

from policyc.compiler.cli.help import command
from policyc.compiler.editor.features import new_server


@command(
    "lsp",
    short_help="serve editors over standard input and output",
    examples=("policyc lsp",),
)
@click.option(
    "--stdio",
    is_flag=True,
    expose_value=False,
    help="Use standard input and output, as always. Editors pass this option.",
)
def lsp() -> int:
    """Serve an editor: findings of reading and check while you type, hover, definitions, quick fixes.

    The folder of the editor and its .policyc.yaml choose the files. Messages of the Language Server
    Protocol go over standard input and output, and the log to standard error.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="policyc: %(message)s")
    gc.freeze()  # loaded modules are not garbage
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")  # the server closes it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what else is printed is no message
    new_server(version("policyc")).start_io(stdout=output)
    return 0
