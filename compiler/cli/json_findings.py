# SPDX-License-Identifier: Apache-2.0
"""Findings that stop a run, as one JSON object on standard output, for `--format json`."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from policyc.ir.errors import InputError
from policyc.ir.printable import json_text

SCHEMA = "policyc.dev/diagnostics/v1"


@contextmanager
def findings_as_json(is_wanted: bool) -> Iterator[None]:
    """Print the findings of an InputError, which then is shown as text, too (exit 2)."""
    try:
        yield
    except InputError as wrong:
        if is_wanted:
            findings = [finding.to_json() for finding in wrong.findings]
            click.echo(json_text({"schema": SCHEMA, "diagnostics": findings}))
        raise
