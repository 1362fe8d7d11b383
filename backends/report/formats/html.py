# SPDX-License-Identifier: Apache-2.0
"""Reports as one HTML page."""

from policyc.backends.report.html.page import failure_html, report_html
from policyc.ir.results.failure import Failure
from policyc.ir.results.report import Report

FORMAT = "html"
RENDERERS = {Report: report_html, Failure: failure_html}
