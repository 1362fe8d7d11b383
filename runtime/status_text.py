# SPDX-License-Identifier: Apache-2.0
"""The status of a node, for people. Takes a `NodeStatus`, prints tables."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from policyc.runtime import service_route
from policyc.runtime.state import LoadedEndpoint, LoadedMasquerade
from policyc.runtime.status import NodeStatus


def show(status: NodeStatus, console: Console) -> None:
    """Print every part that has something to say."""
    console.print(
        f"node {status.node}: epoch {status.epoch} in slot {status.slot}, "
        f"from {status.bundle} ({status.bundle_digest[:12]}), forwarding: {status.forwarding}"
        + (f", uplinks: {' '.join(status.uplinks)} ({_outside(status)})" if status.uplinks else ""),
        highlight=False,
        soft_wrap=True,
    )
    if status.cgroup:
        console.print(
            f"the node's own connections to Services: {status.cgroup}",
            highlight=False,
            soft_wrap=True,
        )
    if status.service_cidrs:
        console.print(
            f"routed to Services by {service_route.NAME}: {' '.join(status.service_cidrs)}",
            highlight=False,
            soft_wrap=True,
        )
    if status.masquerade:
        console.print(_masquerade(status.masquerade), highlight=False, soft_wrap=True)
    if status.host:
        console.print(
            f"the node itself is guarded as {status.host.name}; failsafe ports: "
            f"{status.host.failsafes.describe()}",
            highlight=False,
            soft_wrap=True,
        )
    if status.reassembly is not None:
        console.print(
            "fragments out of order: {sent} sent to be put in order, {back} came back, {over} over "
            "the limit".format(**status.reassembly),
            highlight=False,
            soft_wrap=True,
        )
    for each in status.xdp:
        console.print(
            f"XDP ({each.mode}) at {each.interface}: {each.requests} packets of clients handed to other "
            f"nodes, {each.answers} of their answers to clients",
            highlight=False,
            soft_wrap=True,
        )
    for device in status.unprotected:
        console.print(
            f"[bold red]{device}: a hook does not run there; load again[/]",
            highlight=False,
        )
    if status.missing_devices:
        n = len(status.missing_devices)
        console.print(
            f"{n} {'pod' if n == 1 else 'pods'} of this node without a device: "
            f"{' '.join(status.missing_devices)}",
            highlight=False,
            soft_wrap=True,
        )
    if status.denied_devices:
        n = len(status.denied_devices)
        console.print(
            f"{n} {'device' if n == 1 else 'devices'} without an endpoint, under default deny: "
            f"{' '.join(status.denied_devices)}",
            highlight=False,
            soft_wrap=True,
        )
    if status.deny_devices:
        console.print(
            f"denied without an endpoint: {' '.join(status.deny_devices)}",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
    if status.resets_revoked:
        console.print("revoked TCP connections are reset", highlight=False)
    if status.external_cidrs:
        console.print(
            f"externalIPs are limited to: {' '.join(status.external_cidrs)}",
            highlight=False,
            soft_wrap=True,
        )
    if status.services_unfinished:
        console.print(
            "[bold red]a change of Services was not finished, and connections to endpoints that were"
            " removed may go on; `policyc node services` again[/]",
            highlight=False,
            soft_wrap=True,
        )
    if status.services_left_out:
        console.print(_left_out(status.services_left_out), highlight=False, soft_wrap=True)
    tables = (
        _programs(status),
        _endpoints(status),
        _maps(status),
        _rules(status),
        _drops(status),
        _refused(status),
    )
    for table in tables:
        if table.row_count:
            console.print()
            console.print(table)


_LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "conflicts": (
        "{} address and port is another's",
        "{} addresses and ports are another's",
    ),
    "over_limits": (
        "{} address and port is over a limit",
        "{} addresses and ports are over a limit",
    ),
    "without_maglev": (
        "{} Service asks for Maglev tables and has none",
        "{} Services ask for Maglev tables and have none",
    ),
    "wrong_objects": ("{} object is wrong", "{} objects are wrong"),
}
"""One, and more."""


def _left_out(counts: Mapping[str, int]) -> str:
    shown = (_LEFT_OUT[name][count != 1].format(count) for name, count in counts.items())
    return f"[bold]Services left out: {', '.join(shown)}[/]"


def _outside(status: NodeStatus) -> str:
    own = (f"{n} addresses and ports {way}" for way, n in sorted(status.services_outside.items()))
    return ", ".join((status.outside, *own))


def _masquerade(how: LoadedMasquerade) -> str:
    by = ", ".join(f"{' '.join(at) or 'nobody'} ({uplink})" for uplink, at in how.addresses.items())
    but = f", but to {' '.join(how.excepted)}" if how.excepted else ""
    return f"pods leave as {by}, ports {how.first_port}-{how.last_port}{but}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _programs(status: NodeStatus) -> Table:
    table = _table("Programs", "name", "id", "tag", "attached")
    for program in status.programs:
        attached = ", ".join(program.attached) or "nowhere"
        if program.is_tail_called:
            attached = "by tail call"
        table.add_row(program.name, str(program.id), program.tag, attached)
    return table


def _endpoints(status: NodeStatus) -> Table:
    table = _table("Endpoints", "id", "pod", "addresses", "device", "handed over", "class")
    for endpoint in status.endpoints:
        table.add_row(
            str(endpoint.id),
            endpoint.title,
            " ".join(endpoint.addresses),
            _device(endpoint),
            "yes" if endpoint.has_peer else "",
            " ".join(f"{name} {at}" for name, at in endpoint.place.items()),
        )
    return table


def _device(endpoint: LoadedEndpoint) -> str:
    if endpoint.is_missing:
        return f"{endpoint.interface} (missing)"
    return endpoint.interface or ("(this node)" if endpoint.is_host else "(another node)")


def _maps(status: NodeStatus) -> Table:
    table = _table("Maps", "name", "used", "size")
    for each in status.maps:
        used = "" if each.used is None else str(each.used)
        table.add_row(each.name, used, str(each.entries))
    return table


def _rules(status: NodeStatus) -> Table:
    table = _table("Verdicts by rule", "rule", "packets", "bytes", "action", "where")
    for count in status.rules:
        size = "" if count.bytes is None else str(count.bytes)
        table.add_row(str(count.rule), str(count.packets), size, count.action, count.where)
    return table


def _drops(status: NodeStatus) -> Table:
    table = _table("Drops by reason", "reason", "packets")
    for reason, packets in status.drops.items():
        table.add_row(reason, str(packets))
    return table


def _refused(status: NodeStatus) -> Table:
    table = _table("Refused as a quota was full", "endpoint", "what", "times")
    for each in status.refused:
        table.add_row(each.endpoint, each.what, str(each.times))
    return table
