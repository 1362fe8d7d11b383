# SPDX-License-Identifier: Apache-2.0
"""`policyc node events`: the events that rules with `log` record, as they happen."""

import json
from pathlib import Path

import click

from policyc.compiler.cli.stopped import stopped_by_signals
from policyc.ir.printable import printable_line
from policyc.runtime.observe.event_records import (
    EndSaid,
    Event,
    RuleSaid,
)
from policyc.runtime.observe.events import (
    Lost,
    read_events,
)


def show_events(bpffs: Path, form: str, count: int | None, seconds: float | None) -> None:
    """Print events until a number is reached, the time is over, or a signal comes."""
    with stopped_by_signals() as signals:
        found = read_events(
            bpffs=bpffs,
            count=count,
            seconds=seconds,
            is_over=lambda: bool(signals),
            warn=lambda message: click.echo(printable_line(f"warning: {message}"), err=True),
        )
        for each in found:
            if form == "json":
                click.echo(json.dumps(each.to_json()))
            elif isinstance(each, Event):
                click.echo(printable_line(event_line(each)))
            else:
                click.echo(lost_line(each), err=True)


def event_line(event: Event) -> str:
    """One line: the time, the result, source and destination, and the deciding rules."""
    verdict = event.verdict + (f" ({event.reason})" if event.reason else "")
    service = event.protocol
    if event.icmp_type is not None:
        service += f" type {event.icmp_type} code {event.icmp_code}"
    parts = [
        f"{event.time} {verdict} {service}",
        _place(event.source, event.source_address, event.source_port),
        "to",
        _place(event.destination, event.destination_address, event.destination_port),
    ]
    if event.service_address is not None:
        parts.append(f"for {_place('', event.service_address, event.service_port)}")
    if event.again:
        parts.append("again")
    ends = (("egress", event.egress), ("ingress", event.ingress))
    said = [f"{name}: {_end(end)}" for name, end in ends if end is not None]
    return " ".join(parts) + "; " + "; ".join(said)


def lost_line(lost: Lost) -> str:
    """The number of lost events, and why."""
    why = (("over the rate limit", lost.withheld), ("in a full buffer", lost.full))
    parts = [f"{number} {reason}" for reason, number in why if number]
    return f"events lost: {', '.join(parts)}"


def _place(name: str, address: str, port: int | None) -> str:
    shown = (
        address
        if port is None
        else f"[{address}]:{port}"
        if ":" in address
        else f"{address}:{port}"
    )
    return f"{name} {shown}" if name else shown


def _end(end: EndSaid) -> str:
    notes = "".join(f", {_rule(note)}" for note in end.notes)
    return _rule(end.decided) + notes


def _rule(rule: RuleSaid) -> str:
    return " ".join(part for part in (rule.action, "by", rule.where, rule.path) if part)
