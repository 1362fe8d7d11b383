# SPDX-License-Identifier: Apache-2.0
"""`policyc node follow`: follow the API server's watches of Services, and new devices."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import click

from policyc.compiler.cli.stopped import stopped_by_signals
from policyc.ir.printable import printable_line
from policyc.runtime.attach.denied_devices import Patterns
from policyc.runtime.attach.device_watch import (
    DeviceWatch,
    remember,
)
from policyc.runtime.errors import InputError
from policyc.runtime.services.claims import Ranges
from policyc.runtime.services.follow import (
    Applied,
    loaded_when_free,
)
from policyc.runtime.services.follow import follow as follow_services
from policyc.runtime.state import DEFAULT_ROOT as DEFAULT_STATE

_ROUND = 0.1  # seconds between two checks for the end


def follow(
    streams: tuple[Path, ...],
    bpffs: Path,
    form: str,
    settled: float,
    external: Ranges | None,
    deny: Patterns | None,
) -> None:
    """Follow until the streams end or a signal comes; a line for each change of Services in force."""
    with stopped_by_signals() as signals:
        _begin(bpffs, deny, external, bool(streams), lambda: bool(signals))
        with DeviceWatch(bpffs, DEFAULT_STATE, _warn) as watch:

            def is_over() -> bool:
                return bool(signals) or watch.is_broken

            if streams:
                follow_services(
                    streams,
                    told=lambda applied: click.echo(_line(applied, form)),
                    is_over=is_over,
                    bpffs=bpffs,
                    settled=settled,
                    warn=_warn,
                    note=_note,
                )
            while not (streams or is_over()):
                time.sleep(_ROUND)


def _begin(
    bpffs: Path,
    deny: Patterns | None,
    external: Ranges | None,
    has_streams: bool,
    is_over: Callable[[], bool],
) -> None:
    """Apply the given patterns and ranges; `InputError`: nothing to follow."""
    if has_streams and deny is None and external is None:
        return
    with loaded_when_free(bpffs, DEFAULT_STATE, is_over, _note) as node:
        if not (has_streams or deny or node.generation.deny_devices):
            raise InputError(
                "nothing to follow",
                "give STREAMS of Service watch events, or --deny-devices",
            )
        if deny is not None:
            remember(node.pins, node.state, node.generation, deny)
    if external is not None:
        with loaded_when_free(bpffs, DEFAULT_STATE, is_over, _note) as node:
            node.remember_external(external)


def _note(message: str) -> None:
    click.echo(printable_line(f"note: {message}"), err=True)


def _warn(message: str) -> None:
    click.echo(printable_line(f"warning: {message}"), err=True)


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
    how = "full rewrite" if applied.whole else "incremental"
    return (
        f"in force: {applied.events} events, {applied.changed} addresses and ports changed, {how}, "
        f"{1000 * applied.seconds:.1f} ms"
    )
