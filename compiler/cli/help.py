# SPDX-License-Identifier: Apache-2.0
"""The layout of `--help`: options under headings, and examples to copy."""

from collections.abc import Callable, Sequence
from typing import Any

import click

SECTIONS = {
    "Input": (
        "--file", "--kustomize", "--helm", "--helm-values", "--cluster", "--cluster-old",
        "--cluster-new", "--flows", "--scenarios", "--intents", "--endpoints", "--config",
        "--namespace", "--kube-version", "--channel", "--profile",
        "--allow-unknown-kinds", "--unsupported", "--allow-empty",
        "--all-namespaces", "--context", "--kubeconfig", "--skip-forbidden",
    ),
    "Query": (
        "--universe", "--pod-cidr", "--source-port", "--focus", "--exposure", "--ignore-effects",
        "--fail-on", "--seconds", "--examples", "--seed", "--backends", "--replay",
        "--count", "--settled",
    ),
    "Bundle": (
        "--backend", "--rule-counters", "--socket-programs", "--node", "--all-nodes", "--emit",
        "--explain-layout",
    ),
    "Proof": (
        "--prove", "--sign", "--require-proof", "--reprove", "--reprove-cluster", "--solver",
        "--timeout", "--audit", "--recheck",
    ),
    "Execution": ("--jobs", "--executor", "--engine", "--cache", "--cache-size"),
    "Pods and devices": (
        "--attach", "--forwarding", "--uplink", "--xdp", "--missing-devices", "--deny-devices",
        "--reassemble", "--reset-revoked", "--bypass",
    ),
    "Services": (
        "--services", "--strict-services", "--service-cidr", "--external-cidr", "--outside", "--cgroup",
        "--socket-services", "--connect-deny",
    ),
    "SNAT": ("--masquerade", "--masquerade-except", "--masquerade-ports"),
    "Host policy": ("--failsafe-inbound", "--failsafe-outbound"),
    "Output": ("--to", "--output", "--out", "--format", "--limit", "--all", "--verbose"),
}  # fmt: skip
"""Heading -> options in the order of help. Any other option comes last."""
OTHERS = "Options"

_SECTION = {option: name for name, options in SECTIONS.items() for option in options}
_ORDER = {option: at for at, option in enumerate(_SECTION)}


class Command(click.Command):
    """A command whose help has its options under headings, and examples at the end."""

    def __init__(self, *given: Any, examples: Sequence[str] = (), **named: Any) -> None:
        super().__init__(*given, **named)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each heading for which there are options."""
        found: dict[str, list[tuple[int, tuple[str, str]]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record and isinstance(option, click.Option):
                name = next((each for each in option.opts if each in _SECTION), "")
                found.setdefault(_SECTION.get(name, OTHERS), []).append(
                    (_ORDER.get(name, 0), record)
                )
        for heading in (*SECTIONS, OTHERS):
            if heading in found:
                with formatter.section(heading):
                    records = sorted(found[heading], key=lambda each: each[0])
                    formatter.write_dl([record for _, record in records])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as they are, and the rest of the epilog."""
        if self.examples:
            with formatter.section("Examples"):
                for each in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}{each}\n")
        super().format_epilog(ctx, formatter)


def command(
    name: str, *, examples: Sequence[str], **named: Any
) -> Callable[[Callable[..., Any]], Command]:
    """`click.command` with examples: lines as a user types them, which a test runs or parses."""
    return click.command(name, cls=Command, examples=examples, **named)
