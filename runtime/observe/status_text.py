# SPDX-License-Identifier: Apache-2.0
"""The status of a node, for people. Takes a `NodeStatus`, prints tables."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from policyc.runtime.counts import counted
from policyc.runtime.observe.bypass_status import BypassStatus
from policyc.runtime.observe.status import NodeStatus
from policyc.runtime.services import route as service_route
from policyc.runtime.state import LoadedEndpoint, LoadedMasquerade


def show(status: NodeStatus, console: Console, printable: Callable[[str], str] = str) -> None:
    """Print every part that is not empty; names in it pass through `printable`."""

    def say(words: str, style: str = "") -> None:
        console.print(printable(words), style=style, markup=False, highlight=False, soft_wrap=True)

    say(
        f"node {status.node}: epoch {status.epoch} in slot {status.slot}, "
        f"from {status.bundle} ({status.bundle_digest[:12]}), forwarding: {status.forwarding}"
        + (f", uplinks: {' '.join(status.uplinks)} ({_outside(status)})" if status.uplinks else "")
    )
    if status.cgroup:
        say(f"Services at connect(): {_whose(status)} in {status.cgroup}")
    if status.bypass:
        say(_bypass(status.bypass))
    if status.service_cidrs:
        say(f"routed to Services through {service_route.NAME}: {' '.join(status.service_cidrs)}")
    if status.masquerade:
        say(_masquerade(status.masquerade))
    if status.host:
        say(
            f"the node is under host policy as {status.host.name}; failsafe ports: "
            f"{status.host.failsafes.describe()}"
        )
    if any(each.has_peer for each in status.endpoints) and not status.first_packets:
        say("first packets take the stack path")
    elif status.first_packets and status.uplinks and not status.first_packets_by_uplinks:
        say("first packets to and from other nodes take the stack path")
    if status.has_ipsec:
        say("the host has IPsec policies: packets at uplinks and between nodes take the stack path")
    if status.tunnel is not None:
        say(
            "packets between nodes: {sent} encapsulated, {received} decapsulated; by the VXLAN device: "
            "{sent_by_device} and {received_by_device}".format(**status.tunnel)
        )
    if status.reassembly is not None:
        say(
            "out-of-order fragments: {sent} sent to reassembly, {back} reassembled, {over} over the "
            "limit".format(**status.reassembly)
        )
    for each in status.xdp:
        say(
            f"XDP ({each.mode}) at {each.interface}: {each.requests} packets of external clients "
            f"forwarded to other nodes, {each.answers} replies forwarded to clients"
        )
    for device in status.unprotected:
        say(f"{device}: a hook is not attached; load again", "bold red")
    if status.missing_devices:
        n = len(status.missing_devices)
        say(
            f"{n} {'pod' if n == 1 else 'pods'} of this node without a device: "
            f"{' '.join(status.missing_devices)}"
        )
    if status.denied_devices:
        n = len(status.denied_devices)
        say(
            f"{n} {'device' if n == 1 else 'devices'} without an endpoint, under default deny: "
            f"{' '.join(status.denied_devices)}"
        )
    if status.deny_devices:
        say(f"default deny of devices without an endpoint: {' '.join(status.deny_devices)}")
    if status.resets_revoked:
        say("revoked TCP connections are reset")
    if status.external_cidrs:
        say(f"externalIPs are limited to: {' '.join(status.external_cidrs)}")
    if status.services_unfinished:
        say(
            "a change of Services is incomplete: connections to removed endpoints may continue; run "
            "`policyc node services` again",
            "bold red",
        )
    if status.services_left_out:
        say(_left_out(status.services_left_out), "bold")
    for make in (_programs, _endpoints, _maps, _rules, _drops, _refused):
        title, columns, rows = make(status)
        if rows:
            console.print()
            console.print(_table(title, columns, rows, printable))


_LEFT = {
    "policy": "another policy",
    "alone": "the other end is closed",
    "pending": "data of the stack is unread",
    "unread": "the receiver is slow",
    "untracked": "not in conntrack",
    "tls": "TLS has begun",
}
"""Why directions left the bypass."""
_LEFT_OUT: Mapping[str, tuple[str, str]] = {
    "conflicts": (
        "{} address and port belongs to another Service",
        "{} addresses and ports belong to other Services",
    ),
    "over_limits": (
        "{} address and port is over a limit",
        "{} addresses and ports are over a limit",
    ),
    "without_maglev": (
        "{} Service asks for Maglev tables and has none",
        "{} Services ask for Maglev tables and have none",
    ),
    "wrong_objects": ("{} object is invalid", "{} objects are invalid"),
}
"""Singular and plural."""


def _left_out(counts: Mapping[str, int]) -> str:
    shown = (_LEFT_OUT[name][count != 1].format(count) for name, count in counts.items())
    return f"Services left out: {', '.join(shown)}"


def _outside(status: NodeStatus) -> str:
    own = (f"{n} addresses and ports {way}" for way, n in sorted(status.services_outside.items()))
    return ", ".join((status.outside, *own))


def _bypass(status: BypassStatus) -> str:
    left = ", ".join(f"{_LEFT[name]}: {n}" for name, n in status.left.items())
    return (
        f"bypass of the stack: {counted(status.open, 'open connection')}, {status.sending} of "
        f"{counted(2 * status.open, 'direction')} bypassed; since the start "
        f"{counted(status.connections, 'connection')}, {counted(status.messages, 'message')}, "
        f"{counted(status.bytes, 'byte')}" + (f"; back to the stack: {left}" if left else "")
    )


def _whose(status: NodeStatus) -> str:
    if status.socket_pods is None:
        return "the node's own processes"
    denied = ", whose denied connect() fails," if status.connect_deny else ""
    return f"the node's own processes and {counted(status.socket_pods, 'pod')}{denied}"


def _masquerade(how: LoadedMasquerade) -> str:
    by = ", ".join(
        f"{' '.join(at) or 'no address'} ({uplink})" for uplink, at in how.addresses.items()
    )
    but = f", except to {' '.join(how.excepted)}" if how.excepted else ""
    return f"SNAT to {by}, ports {how.first_port}-{how.last_port}{but}"


_Rows = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]
"""A title, the names of columns, and a line of texts for each item."""


def _table(
    title: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    printable: Callable[[str], str],
) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _programs(status: NodeStatus) -> _Rows:
    rows = []
    for program in status.programs:
        attached = ", ".join(program.attached) or "nowhere"
        if program.is_tail_called:
            attached = "by tail call"
        rows.append((program.name, str(program.id), program.tag, attached))
    return "Programs", ("name", "id", "tag", "attached"), rows


def _endpoints(status: NodeStatus) -> _Rows:
    rows = [
        (
            str(endpoint.id),
            endpoint.title,
            " ".join(endpoint.addresses),
            _device(endpoint),
            "yes" if endpoint.has_peer else "",
            " ".join(f"{name} {at}" for name, at in endpoint.place.items()),
        )
        for endpoint in status.endpoints
    ]
    return "Endpoints", ("id", "pod", "addresses", "device", "fast path", "class"), rows


def _device(endpoint: LoadedEndpoint) -> str:
    if endpoint.is_missing:
        return f"{endpoint.interface} (missing)"
    return endpoint.interface or ("(this node)" if endpoint.is_host else "(another node)")


def _maps(status: NodeStatus) -> _Rows:
    rows = [
        (each.name, "" if each.used is None else str(each.used), str(each.entries))
        for each in status.maps
    ]
    return "Maps", ("name", "used", "size"), rows


def _rules(status: NodeStatus) -> _Rows:
    rows = []
    for count in status.rules:
        size = "" if count.bytes is None else str(count.bytes)
        rows.append((str(count.rule), str(count.packets), size, count.action, count.where))
    return "Verdicts by rule", ("rule", "packets", "bytes", "action", "where"), rows


def _drops(status: NodeStatus) -> _Rows:
    rows = [(reason, str(packets)) for reason, packets in status.drops.items()]
    return "Drops by reason", ("reason", "packets"), rows


def _refused(status: NodeStatus) -> _Rows:
    rows = [(each.endpoint, each.what, str(each.times)) for each in status.refused]
    return "Refused because a quota was full", ("endpoint", "what", "times"), rows
