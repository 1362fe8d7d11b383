# SPDX-License-Identifier: Apache-2.0
"""The listing as a picture, drawn by graphviz' `dot`."""

import shutil
import subprocess

from policyc.backends.report.dot_text import dot_of
from policyc.backends.report.options import ReportOptions
from policyc.ir.errors import HostError
from policyc.ir.results.listing import ListResult

FORMAT = "svg"
HINT = "apt install graphviz, or use --format dot"
MOST_SECONDS = 120
"""The time limit: layout is worse than linear in the edges, and a larger picture is unreadable."""


def listing_svg(result: ListResult, _options: ReportOptions) -> str:
    """The whole SVG document, or HostError (exit 3): there is no partial document."""
    tool = shutil.which("dot")
    if tool is None:
        raise HostError("--format svg needs graphviz, but `dot` is not on the PATH", HINT)
    try:
        done = subprocess.run(
            [tool, "-Tsvg"],
            input=dot_of(result).encode(),
            capture_output=True,
            timeout=MOST_SECONDS,
            check=False,
        )
    except OSError as failure:
        raise HostError(f"{tool} cannot be run: {failure.strerror}", HINT) from failure
    except subprocess.TimeoutExpired as failure:
        hint = "draw less with --focus or --limit, or use --format dot"
        raise HostError(f"{tool} took more than {MOST_SECONDS} s", hint) from failure
    document = done.stdout.decode("utf-8", "replace")
    if done.returncode or "</svg>" not in document:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit {done.returncode}"
        raise HostError(f"{tool} did not draw the graph: {said}", HINT)
    return document


RENDERERS = {ListResult: listing_svg}
