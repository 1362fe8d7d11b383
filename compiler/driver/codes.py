# SPDX-License-Identifier: Apache-2.0
"""The findings of the driver: about outputs and options, not about the text of policies."""

from policyc.ir.diagnostics import Code, Severity

NOT_A_BUNDLE = Code(
    "PC0901", Severity.ERROR, "{target} exists and is not a bundle; nothing was written"
)
CANNOT_WRITE = Code("PC0902", Severity.ERROR, "{target} cannot be written: {reason}")
