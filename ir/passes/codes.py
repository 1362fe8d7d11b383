# SPDX-License-Identifier: Apache-2.0
"""The findings of passes."""

from policyc.ir.diagnostics import Code, Severity

NOT_ENFORCED = Code("PC0903", Severity.ERROR, "{name}: the datapath does not enforce {what} yet")
NOT_ENFORCED_CLOSED = Code(
    "PC0904", Severity.WARNING, "{name}: the datapath does not enforce {what} yet; {outcome}"
)
