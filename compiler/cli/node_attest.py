# SPDX-License-Identifier: Apache-2.0
"""`policyc node attest`: compare what runs on this node with a bundle. Glue only."""

import json
from pathlib import Path

import click

from policyc.ir.printable import printable_lines
from policyc.runtime.command_lock import Patience
from policyc.runtime.observe.attest import (
    Attested,
    attest,
)


def show_attested(
    bundle: Path, endpoints: Path, bpffs: Path, form: str, digest: str, patience: Patience
) -> int:
    """Compare and report; 1 if anything differs."""
    found = attest(bundle, endpoints, digest=digest, bpffs=bpffs, patience=patience)
    click.echo(json.dumps(found.to_json()) if form == "json" else printable_lines(_in_words(found)))
    return 0 if found.is_good else 1


def _in_words(found: Attested) -> str:
    says = "this node runs" if found.is_good else "this node does not run"
    lines = [f"{says} {found.bundle} (epoch {found.epoch}, manifest {found.manifest[:16]})"]
    for part in found.parts:
        lines.append(
            f"{'different' if part.faults else 'equal'}: {part.what} ({part.compared} compared)"
        )
        lines += [f"  {fault}" for fault in part.faults]
    lines += [f"not compared: {each}" for each in found.left_out]
    return "\n".join(lines)
