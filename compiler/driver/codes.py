# SPDX-License-Identifier: Apache-2.0
"""The findings of the driver: about outputs and options, not about the text of policies."""

from policyc.ir.diagnostics import Code, Severity

NOT_A_BUNDLE = Code(
    "PC0901", Severity.ERROR, "{target} exists and is not a bundle; nothing was written"
)
INEXPRESSIBLE = Code("PC1701", Severity.ERROR, "{name}: {target} cannot express it: {why}")
NOT_ENFORCED = Code("PC0903", Severity.ERROR, "{name}: the datapath does not enforce {what} yet")
NOT_ENFORCED_CLOSED = Code(
    "PC0904", Severity.WARNING, "{name}: the datapath does not enforce {what} yet; {outcome}"
)
CANNOT_WRITE = Code("PC0902", Severity.ERROR, "{target} cannot be written: {reason}")
