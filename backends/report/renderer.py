# SPDX-License-Identifier: Apache-2.0
"""The type of a renderer, in a module that formats can import."""

from collections.abc import Callable
from typing import Any

from policyc.backends.report.options import ReportOptions

Renderer = Callable[[Any, ReportOptions], str]
"""From a result, of the type that the renderer is registered for, to a whole document."""
