# SPDX-License-Identifier: Apache-2.0
"""The listing as a graph for graphviz."""

from policyc.backends.report.dot_text import dot_of
from policyc.backends.report.options import ReportOptions
from policyc.ir.results.listing import ListResult

FORMAT = "dot"


def listing_dot(result: ListResult, _options: ReportOptions) -> str:
    """The DOT text."""
    return dot_of(result)


RENDERERS = {ListResult: listing_dot}
