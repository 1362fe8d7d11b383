# SPDX-License-Identifier: Apache-2.0
"""The options of commands that prove: the universe, the pods' networks, the time limit of solvers."""

import click

from policyc.compiler.frontend.kubernetes.addresses import parse_cidr
from policyc.ir.peers import Network
from policyc.verifier.smt.solver_choice import Choice


def _networks(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[Network, ...]:
    """CIDRs such as 10.244.0.0/16, without host bits; a usage error describes the mistake."""
    return tuple(map(_network, values))


def _network(value: str) -> Network:
    found = parse_cidr(value)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a CIDR such as 10.244.0.0/16 or fd00::/16")
    if found.has_host_bits:
        raise click.BadParameter(f"{value!r} has bits beyond its prefix: write {found.network}")
    return found.network


universe_option = click.option(
    "--universe",
    type=click.Choice(["symbolic", "cluster"]),
    help="Answer for every possible cluster (symbolic), or for the one of --cluster. [default: "
    "cluster with --cluster, else symbolic]",
)
pod_cidr_option = click.option(
    "--pod-cidr",
    "pod_networks",
    callback=_networks,
    multiple=True,
    metavar="CIDR",
    help="Assume that all pods, and no external hosts, have addresses in this range. Repeatable.",
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop a query after this many seconds; its answer is 'undecided'. [default: no limit]",
)
solver_option = click.option(
    "--solver",
    type=click.Choice([choice.value for choice in Choice]),
    default=Choice.Z3.value,
    show_default=True,
    help="Prove with this solver. With `both`, the two must agree.",
)


def is_symbolic(universe: str | None, cluster: tuple[str, ...]) -> bool:
    """Whether the universe is symbolic; a usage error if a cluster is required and missing."""
    if universe == "cluster" and not cluster:
        raise click.UsageError("--universe cluster needs --cluster")
    return universe == "symbolic" or (universe is None and not cluster)


def limit_of(timeout: float | None) -> int | None:
    """The limit of one query in milliseconds."""
    return None if timeout is None else max(1, round(timeout * 1000))
