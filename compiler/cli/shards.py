# SPDX-License-Identifier: Apache-2.0
"""--jobs and --executor: where a command's work is done. The answers do not depend on it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def shard_options(command: Command) -> Command:
    """Add --jobs and --executor to a command, for `driver.shards.map_shards`."""
    executor = click.option(
        "--executor",
        default="",
        metavar="dask://HOST:PORT",
        help="Run on a Dask cluster whose workers have this release of policyc. [default: this machine]",
    )
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Run in this many processes.",
    )
    return jobs(executor(command))
