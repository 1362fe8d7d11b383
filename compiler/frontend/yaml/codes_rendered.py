# SPDX-License-Identifier: Apache-2.0
"""The findings about kustomizations and charts that policyc renders with the user's own tools."""

from policyc.ir.diagnostics import Code, Severity

_E = Severity.ERROR

NO_TOOL = Code("PC0141", _E, "{source} needs {tools}: {reason}")
RENDERING_FAILED = Code("PC0142", _E, "`{command}` failed: {reason}")
TIMED_OUT = Code("PC0143", _E, "`{command}` was stopped: it ran longer than {seconds} s")
BAD_RENDERED_SOURCE = Code("PC0144", _E, "{text}: {problem}")
