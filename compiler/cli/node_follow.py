# SPDX-License-Identifier: Apache-2.0
"""`policyc node follow`: Services as the API server's watches tell of them."""

import json
from pathlib import Path

import click

from policyc.compiler.cli.stopped import stopped_by_signals
from policyc.runtime.service_follow import Applied, follow
from policyc.runtime.service_objects import Network


def follow_services(
    streams: tuple[Path, ...],
    bpffs: Path,
    form: str,
    settled: float,
    external: tuple[Network, ...] | None,
) -> None:
    """Follow until the streams end or a signal comes; a line for each change that is in force."""
    with stopped_by_signals() as signals:
        follow(
            streams,
            told=lambda applied: click.echo(_line(applied, form)),
            is_over=lambda: bool(signals),
            bpffs=bpffs,
            settled=settled,
            external=external,
            warn=lambda message: click.echo(f"warning: {message}", err=True),
        )


def _line(applied: Applied, form: str) -> str:
    if form == "json":
        return json.dumps(
            {
                "events": applied.events,
                "changed": applied.changed,
                "whole": applied.whole,
                "milliseconds": round(1000 * applied.seconds, 1),
            }
        )
    how = "all written anew" if applied.whole else "singly"
    return (
        f"in force: {applied.events} events, {applied.changed} addresses and ports changed, {how}, "
        f"{1000 * applied.seconds:.1f} ms"
    )
